// Where the reader is: at the end, which is then kept in view, or somewhere above, where nothing is moved.
//
// 1. The page is scrolled for who reads at its end, and for nobody else.
// 2. After a reload the reader is where they were.

import { h } from "../dom.js";
import { store, stored } from "./store.js";

const NEAR = 48;
const page = () => document.scrollingElement ?? document.documentElement;

/**
 * Keeps the end of `content` in view.
 * @param {HTMLElement} content what grows
 * @param {() => string} key under which the reader's place is kept for this tab
 * @param {AbortSignal} signal
 * @returns {{button: HTMLElement, toEnd: () => void, ready: () => void, hold: (putIn: () => Promise<unknown>) => Promise<void>}}
 *   `ready`: what was there is there again. `hold`: something is put in above, and the reader stays with what they read.
 */
export function keepEnd(content, key, signal) {
  const place = recall(key());
  const state = { isAtEnd: !place, place, isReady: false, top: page().scrollTop };
  const button = h("button", { type: "button", class: "newest", hidden: true, onclick: () => toEnd() }, "Jump to latest ↓");
  const toEnd = () => {
    state.isAtEnd = true;
    state.place = null;
    page().scrollTop = page().scrollHeight;
    button.hidden = true;
  };
  const near = () => page().scrollHeight - page().scrollTop - innerHeight < NEAR;
  const scrolled = () => {
    if (state.place) return;
    const { scrollTop } = page();
    // Only who scrolls up leaves the end: that the page has grown is not scrolling.
    if (near()) state.isAtEnd = true;
    else if (scrollTop < state.top - 1) state.isAtEnd = false;
    state.top = scrollTop;
    button.hidden = state.isAtEnd || near();
    if (state.isReady) remember(key(), state.isAtEnd ? null : placeIn(content));
  };
  const grown = () => {
    if (state.isAtEnd) page().scrollTop = page().scrollHeight;
    // What was there before has to be drawn first, and draws in pieces.
    else if (state.place && goTo(content, state.place) && state.isReady) state.place = null;
    state.top = page().scrollTop;
    button.hidden = state.isAtEnd || near();
  };
  const sizes = new ResizeObserver(grown);
  sizes.observe(content);
  signal.addEventListener("abort", () => sizes.disconnect(), { once: true });
  const lead = () => { state.place = null; };
  for (const kind of ["wheel", "touchmove", "keydown"]) addEventListener(kind, lead, { passive: true, signal });
  addEventListener("scroll", scrolled, { passive: true, signal });
  addEventListener("resize", grown, { passive: true, signal });
  const ready = () => {
    state.isReady = true;
    grown();
  };
  const hold = async (putIn) => {
    state.place = state.isAtEnd ? null : placeIn(content);
    state.isReady = false;
    await putIn();
    ready();
  };
  const before = history.scrollRestoration;
  history.scrollRestoration = "manual";
  signal.addEventListener("abort", () => { history.scrollRestoration = before; }, { once: true });
  return { button, toEnd, ready, hold };
}

/** The run at the top of what is seen, and how far it is above. */
function placeIn(content) {
  for (const run of content.querySelectorAll("[data-run]")) {
    const { top, bottom } = run.getBoundingClientRect();
    if (bottom > 80) return { run: run.dataset.run, top: Math.round(top) };
  }
  return null;
}

/** Whether the reader could be brought there. */
function goTo(content, { run, top }) {
  const element = content.querySelector(`[data-run="${CSS.escape(run)}"]`);
  if (!element) return false;
  page().scrollTop += element.getBoundingClientRect().top - top;
  return Math.abs(element.getBoundingClientRect().top - top) < 2;
}

function recall(key) {
  try {
    return JSON.parse(stored(key) ?? "null");
  } catch {
    return null;
  }
}

const remember = (key, place) => store(key, place && JSON.stringify(place));
