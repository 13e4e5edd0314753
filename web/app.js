// The frame around the views: which one is shown, who is there, and whether the server is.
//
// 1. One view at a time. What a view began ends with it.
// 2. The page never looks alive when it is not: that the server is gone is said, and that it is back.
// 3. Where a key is needed, the question for it is all there is: nothing is shown and nothing is asked before it is answered.

import { call, forgetMe, get, heard, key, link, me, serverIsGone } from "./api.js";
import { announce, byId, fill, h, styled, write } from "./dom.js";
import { askForKey, keptTheme, setTheme, showWho } from "./who.js";

/** The views, by the first part of the route. Each is loaded, with its own style, when it is first shown. */
const VIEWS = {
  "": () => import("./board/board.js"),
  chat: () => dressed("chat/chat.js", "chat/chat.css", () => import("./chat/chat.js")),
  runs: () => dressed("board/runs.js", "board/runs.css", () => import("./board/runs.js")),
  run: () => dressed("run/run.js", "run/run.css", () => import("./run/run.js")),
};
const NAMES = { "": "board", chat: "chat", runs: "runs", run: "runs" };
/** What each view is called in the window's title, and to who listens. A view may find a better one. */
const TITLES = { "": "Board", chat: "Chat", runs: "History", run: "Run" };
/** How often a server that is gone is asked whether it is back. */
const LOOK = 1500;
/** When the page was last loaded anew by itself, and how often it may be. */
const RELOADED = "andon.reloaded";
const OFTEN = 30_000;
/** How often the line is looked at. */
const LINE = 10_000;

const place = byId("view");
let shown = new AbortController();

/** What the address names: `#/run/r1/receipt?x=y` is `{parts: ["run", "r1", "receipt"], query}`. */
function route() {
  const [path, query] = location.hash.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query ?? "") };
}

/** A view, once its style is loaded: nothing is shown half styled. */
async function dressed(module, style, load) {
  preload(module);
  const [view] = await Promise.all([load(), styled(style)]);
  return view;
}

/**
 * Asks for all modules of a view at once: over a slow link every module that is found only in another costs a round trip. The
 * server lists them in the page's head. A page that is served from a folder has no such list, and loads without it.
 */
function preload(module) {
  /** @type {HTMLMetaElement | null} */
  const list = document.querySelector(`meta[name="modules"][data-of="${module}"]`);
  list?.remove();
  for (const href of list?.content.split(" ") ?? []) document.head.append(h("link", { rel: "modulepreload", href }));
}

function decoded(text) {
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
  /** @type {NodeListOf<HTMLElement>} */
  const items = document.querySelectorAll("[data-nav]");
  for (const item of items) {
    if (item.dataset.nav === NAMES[name]) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  const isView = Object.hasOwn(VIEWS, name);
  document.title = isView && name ? `${TITLES[name]} · Andon` : "Andon";
  place.setAttribute("aria-label", isView ? TITLES[name] : "Page not found");
  if (!isView) {
    fill(place, h("p", { class: "empty" }, "Page not found. ", h("a", { href: "#/" }, "Go to the board")));
    return;
  }
  try {
    const { default: view } = await VIEWS[name]().catch(notLoaded);
    if (signal.aborted) return;
    fill(place);
    await view(place, { parts: rest, query }, signal);
  } catch (error) {
    if (signal.aborted) return;
    fill(place, trouble(error));
  }
}

/** A browser remembers that a module did not come, and does not ask again: the page has to be loaded anew. */
let isBroken = false;

function notLoaded(error) {
  // Where loading it anew did not help, it is not done again and again.
  if (!(error instanceof TypeError) || Date.now() - Number(sessionStorage.getItem(RELOADED)) < OFTEN) throw error;
  isBroken = true;
  heard(false);
  throw new Error("This part of the page could not be loaded. It will load when the server is back.");
}

/** What went wrong, with a way on. */
function trouble(error) {
  if (error?.status === 401) return "";
  const again = h("button", { type: "button", onclick: begin }, "Retry");
  return h("div", { class: "empty", role: "alert" }, h("p", null, error?.message ?? "Something went wrong."), again);
}

/** The view moves the focus to itself when somebody goes there, so that a screen reader begins there. */
function go() {
  show();
  place.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/* The server goes and comes back (invariant 2). */

const banner = byId("banner");
let looking = 0;
// What stays at the top of a view stays below it.
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

/* Who is there (invariant 3). */

let isSignedOut = false;

/** Nobody is there any more: what was shown goes, what it followed ends, and a key is asked for. */
function signedOut() {
  isSignedOut = true;
  // One that was refused opens nothing any more.
  key.forget();
  forgetMe();
  shown.abort();
  fill(place);
  document.documentElement.dataset.signed = "out";
  delete document.documentElement.dataset.line;
  showLamp();
  showWho();
  askForKey();
}

/** Somebody is there. */
function signedIn() {
  isSignedOut = false;
  delete document.documentElement.dataset.signed;
  begin();
}

/** Shows what may be shown. Who we are decides that; where no key is needed everybody is somebody. */
async function begin() {
  try {
    await me();
  } catch (error) {
    if (isSignedOut) return;
    fill(place, trouble(error));
    if (error.isGone) link.addEventListener("back", begin, { once: true });
    return;
  }
  showWho();
  show();
  look();
}

/* The line, for the lamp. */

/** Where all is well the lamp is enough. Otherwise a word stands beside it: a colour alone is no sign. */
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

/* Begin. */

setTheme(keptTheme());
link.addEventListener("gone", gone);
link.addEventListener("back", back);
link.addEventListener("key", signedOut);
link.addEventListener("known", signedIn);
link.addEventListener("line", look);
addEventListener("hashchange", go);
// Where the address names the view, a link within the page would lead away from it.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  place.focus();
});
document.addEventListener("visibilitychange", look);
setInterval(look, LINE);
begin();
