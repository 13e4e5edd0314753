// Who is signed in, and the choice between light and dark.
//
// 1. Signing out removes everything that the key gave access to.
// 2. What somebody has left in the tab is not there for whoever signs in next.

import { isKnownToProgram, key, link, me, ownName, STORED } from "./api.js";
import { byId, fill, h } from "./dom.js";

/** Asks to sign in. Most people are never asked, so the dialog is loaded when it is needed. */
export async function askToSignIn() {
  const { ask } = await import("./signin.js");
  ask();
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

/** Shows who is signed in, with the button to sign out. */
export function showWho() {
  const who = byId("who");
  const theme = h("button", { type: "button", class: "plain", onclick: turnTheme, "aria-label": "Toggle dark mode", title: "Toggle dark mode" }, "◐");
  const name = key.get() || isKnownToProgram() ? h("span", { class: "name" }, ownName()) : null;
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
