// Who is signed in: the key, the dialog that asks for it, and the choice between light and dark.
//
// 1. An invalid key is not kept. Signing out removes everything that the key gave access to.
// 2. While a key is needed, the dialog cannot be closed.

import { forgetMe, key, link, me, troubleOf } from "./api.js";
import { byId, fill, h } from "./dom.js";

/** @type {HTMLDialogElement | null} */
let asking = null;

/** Asks for a key. There is only one dialog, however many requests need a key. */
export function askForKey() {
  if (asking) return;
  const input = h("input", {
    type: "password", id: "key", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "key-help",
  });
  const said = h("p", { class: "problem", role: "alert" });
  const form = h("form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); tryKey(input, said); } },
    h("h1", null, "Sign in"),
    h("p", { id: "key-help" }, "This server needs a key. The key is kept for this tab only and is forgotten when you close it. " +
      "To create one, run ", h("code", null, "andon keys create NAME"), " on the server's machine."),
    h("label", { for: "key" }, "Key"), input, said,
    h("button", { class: "strong" }, "Sign in"));
  // Browsers close a dialog on the second Escape, even if the event is cancelled (invariant 2).
  const dialog = h("dialog", {
    class: "ask", oncancel: (/** @type {Event} */ event) => event.preventDefault(), onclose: () => asking?.showModal(),
  }, form);
  asking = dialog;
  document.body.append(dialog);
  dialog.showModal();
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
  const dialog = asking;
  asking = null;
  dialog?.remove();
  link.dispatchEvent(new Event("known"));
}

function signOut() {
  // Drafts and the like were written with this key, so they go too.
  for (const name of Object.keys(sessionStorage)) if (name.startsWith("andon.")) sessionStorage.removeItem(name);
  link.dispatchEvent(new Event("key"));
}

/** Shows who is signed in, with the button to sign out. */
export async function showWho() {
  const who = byId("who");
  const theme = h("button", { type: "button", class: "plain", onclick: turnTheme, "aria-label": "Toggle dark mode", title: "Toggle dark mode" }, "◐");
  let name = null;
  if (key.get()) {
    const { name: known } = await me().catch(() => ({ name: "" }));
    name = [h("span", { class: "name" }, known), h("button", { type: "button", class: "plain", onclick: signOut }, "Sign out")];
  }
  fill(who, name, theme);
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
