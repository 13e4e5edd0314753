// The dialog that asks to sign in.
//
// 1. An invalid key is not kept.
// 2. While we are not known, the dialog cannot be closed.
// 3. Where the server is a part of another program, one signs in there, and the dialog leads there instead of asking for a key.

import { forgetMe, key, link, me, troubleOf, unknown } from "./api.js";
import { fill, h } from "./dom.js";

/** @type {HTMLDialogElement | null} */
let asking = null;

/** Asks to sign in. There is only one dialog, however many requests need that. */
export function ask() {
  if (asking) return;
  const form = unknown.takesKey ? keyForm() : placeForm();
  // Browsers close a dialog on the second Escape, even if the event is cancelled (invariant 2).
  const dialog = h("dialog", {
    class: "ask", oncancel: (/** @type {Event} */ event) => event.preventDefault(), onclose: () => asking?.showModal(),
  }, form);
  asking = dialog;
  document.body.append(dialog);
  dialog.showModal();
}

/** The link to where one signs in, if the server has said where that is (invariant 3). */
function placeLink() {
  if (!unknown.place || !URL.canParse(unknown.place, document.baseURI)) return null;
  const { protocol, href } = new URL(unknown.place, document.baseURI);
  return /^https?:$/.test(protocol) ? h("p", null, h("a", { href }, "Go to the sign-in page")) : null;
}

/** Leads to where one signs in (invariant 3). */
function placeForm() {
  const said = h("p", { class: "problem", role: "alert" });
  return h("form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); tryAgain(said); } },
    h("h1", null, "Sign in"), h("p", null, "You are not signed in, or you have been signed out."), placeLink(), said,
    h("button", { class: "strong" }, "Try again"));
}

async function tryAgain(/** @type {HTMLElement} */ said) {
  try {
    await me();
  } catch (error) {
    const { status, message } = troubleOf(error);
    fill(said, status === 401 ? "You are still not signed in." : message);
    return;
  }
  isIn();
}

/** We are known: the dialog has done its work. */
function isIn() {
  const dialog = asking;
  asking = null;
  dialog?.remove();
  link.dispatchEvent(new Event("known"));
}

/** Asks for a key. */
function keyForm() {
  const input = h("input", {
    type: "password", id: "key", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "key-help",
  });
  const said = h("p", { class: "problem", role: "alert" });
  return h("form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); tryKey(input, said); } },
    h("h1", null, "Sign in"),
    h("p", { id: "key-help" }, "This server needs a key. The key is kept for this tab only and is forgotten when you close it. " +
      "To create one, run ", h("code", null, "andon keys create NAME"), " on the server's machine."),
    h("label", { for: "key" }, "Key"), input, said,
    h("button", { class: "strong" }, "Sign in"), placeLink());
}

/** Whether a text can be sent in a header. */
const isKey = (/** @type {string} */ text) => /^[!-~]+$/.test(text);

async function tryKey(/** @type {HTMLInputElement} */ input, /** @type {HTMLElement} */ said) {
  const text = input.value.trim();
  if (!isKey(text)) {
    fill(said, "This is not a key. Keys contain letters, digits and punctuation, and no spaces.");
    input.select();
    return;
  }
  key.set(text);
  forgetMe();
  try {
    await me();
  } catch (error) {
    key.forget();
    const { status, message } = troubleOf(error);
    fill(said, status === 401 ? "This key is not valid. It may be mistyped, expired or revoked." : message);
    input.select();
    return;
  }
  isIn();
}
