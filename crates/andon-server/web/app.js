// The frame around the views: which view is shown, who is signed in, and whether the server responds.
//
// 1. There is one view at a time. Whatever a view started ends with it.
// 2. The page never looks alive when it is not: it says when the server is gone, and when it is back.
// 3. If a key is needed, there is only the sign-in dialog: nothing else is shown or requested until there is a valid key.

import { call, forgetMe, get, heard, key, link, me, serverIsGone, STORED, troubleOf } from "./api.js";
import { announce, byId, fill, h, styled, write } from "./dom.js";
import { askToSignIn, forgetOthers, keptTheme, setTheme, showWho } from "./who.js";

/**
 * The views by the first part of the route: the item of the navigation, what the view is called in the window's title and by screen
 * readers (a view may set a better title), and how it is loaded, with its style sheet, when it is first shown.
 * @type {Record<string, {nav: string, title: string, load: () => Promise<ViewModule>}>}
 */
const VIEWS = {
  "": { nav: "board", title: "Board", load: () => import("./board/board.js") },
  chat: { nav: "chat", title: "Chat", load: () => dressed("chat/chat", () => import("./chat/chat.js")) },
  runs: { nav: "runs", title: "History", load: () => dressed("board/runs", () => import("./board/runs.js")) },
  run: { nav: "runs", title: "Run", load: () => dressed("run/run", () => import("./run/run.js")) },
};
/** How often we check whether the server is back, in milliseconds. */
const LOOK = 1500;
/** Where the time of the last automatic reload is kept, and the least time between two, in milliseconds. */
const RELOADED = `${STORED}reloaded`;
const OFTEN = 30_000;
/** How often the state of the line is checked, in milliseconds. */
const LINE = 10_000;

const place = byId("view");
let shown = new AbortController();

/** The route in the address: `#/run/r1/receipt?x=y` is `{parts: ["run", "r1", "receipt"], query}`. */
function route() {
  const [path, query] = location.hash.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query ?? "") };
}

/** A view, once its style is loaded: nothing is shown half styled. */
async function dressed(/** @type {string} */ file, /** @type {() => Promise<ViewModule>} */ load) {
  preload(`${file}.js`);
  const [view] = await Promise.all([load(), styled(`${file}.css`)]);
  return view;
}

/**
 * Asks for all modules of a view at once: over a slow link every module that is found only in another costs a round trip. The
 * server lists them in the page's head. A page that is served from a folder has no such list, and loads without it.
 */
function preload(/** @type {string} */ module) {
  /** @type {HTMLMetaElement | null} */
  const list = document.querySelector(`meta[name="modules"][data-of="${module}"]`);
  list?.remove();
  for (const href of list?.content.split(" ") ?? []) document.head.append(h("link", { rel: "modulepreload", href }));
}

function decoded(/** @type {string} */ text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function show() {
  if (isSignedOut) return;
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const { parts, query } = route();
  const [name = "", ...rest] = parts;
  const wanted = Object.hasOwn(VIEWS, name) ? VIEWS[name] : null;
  /** @type {NodeListOf<HTMLElement>} */
  const items = document.querySelectorAll("[data-nav]");
  for (const item of items) {
    if (item.dataset.nav === wanted?.nav) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  document.title = wanted && name ? `${wanted.title} · Andon` : "Andon";
  place.setAttribute("aria-label", wanted ? wanted.title : "Page not found");
  if (!wanted) {
    fill(place, h("p", { class: "empty" }, "Page not found. ", h("a", { href: "#/" }, "Go to the board")));
    return;
  }
  try {
    const { default: view } = await wanted.load().catch(notLoaded);
    if (signal.aborted) return;
    fill(place);
    await view(place, { parts: rest, query }, signal);
  } catch (error) {
    if (signal.aborted) return;
    fill(place, trouble(error));
  }
}

/** A browser remembers that a module failed to load and does not try again, so the page has to be reloaded. */
let isBroken = false;

/** @returns {never} */
function notLoaded(/** @type {unknown} */ error) {
  // If a reload did not help, another one will not.
  if (!(error instanceof TypeError) || Date.now() - Number(sessionStorage.getItem(RELOADED)) < OFTEN) throw error;
  isBroken = true;
  heard(false);
  throw new Error("This part of the page could not be loaded. It will load when the server is back.");
}

/** What went wrong, and a way to retry. */
function trouble(/** @type {unknown} */ error) {
  const { status, message } = troubleOf(error);
  if (status === 401) return "";
  const again = h("button", { type: "button", onclick: begin }, "Retry");
  return h("div", { class: "empty", role: "alert" }, h("p", null, message), again);
}

/** Moves the focus to the new view, so that a screen reader starts there. */
function go() {
  show();
  place.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/* The server goes away and comes back (invariant 2). */

const banner = byId("banner");
let looking = 0;
// The sticky parts of a view stay below the banner.
new ResizeObserver(() => document.documentElement.style.setProperty("--banner", `${banner.offsetHeight}px`)).observe(banner);

function gone() {
  fill(banner, "The server is not responding. What you see may be out of date. If you press Stop now, it is sent when the server is back.");
  banner.hidden = false;
  document.documentElement.dataset.link = "gone";
  showLamp();
  clearInterval(looking);
  looking = setInterval(() => call("GET", "/healthz").catch(() => {}), LOOK);
}

function back() {
  clearInterval(looking);
  if (isBroken) {
    sessionStorage.setItem(RELOADED, String(Date.now()));
    location.reload();
    return;
  }
  banner.hidden = true;
  delete document.documentElement.dataset.link;
  showLamp();
  announce("The server is back.");
  look();
}

/* Signing in and out (invariant 3). */

let isSignedOut = false;

/** Signs out: clears the view, ends what it followed, and asks for a key. */
function signedOut() {
  isSignedOut = true;
  // The server has refused this key.
  key.forget();
  forgetMe();
  shown.abort();
  fill(place);
  document.title = "Andon";
  document.documentElement.dataset.signed = "out";
  delete document.documentElement.dataset.line;
  showLamp();
  showWho();
  askToSignIn().catch(notLoaded).catch(() => {});
}

/** A valid key was given. */
function signedIn() {
  isSignedOut = false;
  delete document.documentElement.dataset.signed;
  begin();
}

/** Shows the view once it is known who we are, which decides what may be shown. */
async function begin() {
  try {
    await me();
    await forgetOthers();
  } catch (error) {
    if (isSignedOut) return;
    fill(place, trouble(error));
    if (troubleOf(error).isGone) link.addEventListener("back", begin, { once: true });
    return;
  }
  showWho();
  show();
  look();
}

/* The line, for the lamp. */

/** When all is well the lamp is enough. Otherwise there is a word beside it, because not everyone can tell the colours apart. */
function showLamp() {
  const { link: reached, line } = document.documentElement.dataset;
  const word = reached === "gone" ? "Offline" : line === "held" ? "Line held" : "";
  write(byId("lamp-word"), word);
}

async function look() {
  if (serverIsGone() || document.hidden || isSignedOut) return;
  try {
    const { state } = await get("/v1/line");
    document.documentElement.dataset.line = state;
    showLamp();
  } catch { /* The next look may do better; that the server is gone is said elsewhere. */ }
}

/* Start. */

setTheme(keptTheme());
link.addEventListener("gone", gone);
link.addEventListener("back", back);
link.addEventListener("key", signedOut);
link.addEventListener("known", signedIn);
link.addEventListener("line", look);
addEventListener("hashchange", go);
// The hash names the view, so following a link to an anchor would leave the view.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  place.focus();
});
document.addEventListener("visibilitychange", look);
setInterval(look, LINE);
begin();
