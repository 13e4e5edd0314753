// Who is signed in: the key, the dialog that asks for it, and the choice between light and dark.
//
// 1. An invalid key is not kept. Signing out removes everything that the key gave access to.
// 2. While a key is needed, the dialog cannot be closed.
// 3. Where the server is a part of another program, one signs in there, and the dialog leads there instead of asking for a key.

import { forgetMe, key, link, me, ownName, STORED, troubleOf, unknown } from "./api.js";
import { byId, fill, h } from "./dom.js";

/** @type {HTMLDialogElement | null} */
let asking = null;

/** Asks to sign in. There is only one dialog, however many requests need that. */
export function askToSignIn() {
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

function signOut() {
  // Drafts and the like were written with this key, so they go too.
  forgetStored();
  link.dispatchEvent(new Event("key"));
}

function forgetStored() {
  for (const name of Object.keys(sessionStorage)) if (name.startsWith(STORED)) sessionStorage.removeItem(name);
}

/** The storage key of the tenant and name that this tab was last used by, where no key is needed. */
const LAST = `${STORED}last`;

/** Forgets what somebody else has left in this tab: another program signs people in and out without telling the page. */
export async function forgetOthers() {
  const { tenant, name } = await me();
  const own = `${tenant}/${name}`;
  try {
    const last = sessionStorage.getItem(LAST);
    if (!key.get() && last !== null && last !== own) forgetStored();
    sessionStorage.setItem(LAST, own);
  } catch { /* Without storage nothing was left. */ }
}

/** The name of the owner of the machine: everybody, where nobody signs in. */
const OWNER = "local";

/** Shows who is signed in, with the button to sign out. */
export function showWho() {
  const who = byId("who");
  const theme = h("button", { type: "button", class: "plain", onclick: turnTheme, "aria-label": "Toggle dark mode", title: "Toggle dark mode" }, "◐");
  const name = ownName() && (key.get() || ownName() !== OWNER) ? h("span", { class: "name" }, ownName()) : null;
  const out = key.get() ? h("button", { type: "button", class: "plain", onclick: signOut }, "Sign out") : null;
  fill(who, name, out, theme);
}

/** The storage key of the chosen theme. */
const THEME = "andon.theme";

function turnTheme() {
  const { theme } = document.documentElement.dataset;
  const isDark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(isDark ? "light" : "dark");
}

/** Sets the theme; anything but "light" and "dark" is ignored. */
export function setTheme(/** @type {string | null} */ theme) {
  if (theme !== "light" && theme !== "dark") return;
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(THEME, theme);
  } catch { /* Without storage the choice lasts as long as the page is open. */ }
}

/** The theme that was chosen before, if any. */
export function keptTheme() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null;
  }
}
