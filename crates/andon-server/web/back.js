// Waiting for a server that did not respond.

import { link, serverIsGone } from "./api.js";

/** How long to wait if the server responds to other requests, in milliseconds. */
const SHORTLY = 500;

/** Resolves when it makes sense to try again: the server is back, or it did not seem to be gone at all. */
export const isBack = () => new Promise((done) => {
  if (serverIsGone()) link.addEventListener("back", done, { once: true });
  else setTimeout(done, SHORTLY);
});
