// Waiting for a server that did not answer.

import { link, serverIsGone } from "./api.js";

/** How long to wait where the server is known to answer others, in milliseconds. */
const SHORTLY = 500;

/** Resolves when there is a reason to ask again: the server is back, or it was never known to be gone. */
export const isBack = () => new Promise((done) => {
  if (serverIsGone()) link.addEventListener("back", done, { once: true });
  else setTimeout(done, SHORTLY);
});
