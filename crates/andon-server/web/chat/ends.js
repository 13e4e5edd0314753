// The scroll position: a reader at the end stays at the end; for a reader further up nothing moves.
//
// 1. The page scrolls by itself only if the reader is at its end.
// 2. A reload keeps the scroll position.

import { h } from "../dom.js";
import { store, stored } from "./store.js";

const NEAR = 48;
/** @typedef {{run: string, top: number}} Place a run, and the offset of its top from the top of the window */

const page = () => document.scrollingElement ?? document.documentElement;

/**
 * Keeps the end of `content` in view.
 * @param {HTMLElement} content what grows
 * @param {() => string} key the storage key of the scroll position
 * @param {AbortSignal} signal
 * @returns {{button: HTMLElement, toEnd: () => void, ready: () => void, hold: (putIn: () => Promise<unknown>) => Promise<void>}}
 *   `ready`: call when the content has been restored. `hold`: inserts something above without moving what is being read.
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
    // Only scrolling up leaves the end; the page growing does not.
    if (near()) state.isAtEnd = true;
    else if (scrollTop < state.top - 1) state.isAtEnd = false;
    state.top = scrollTop;
    button.hidden = state.isAtEnd || near();
    if (state.isReady) remember(key(), state.isAtEnd ? null : placeIn(content));
  };
  const grown = () => {
    if (state.isAtEnd) page().scrollTop = page().scrollHeight;
    // The content is drawn piece by piece, so this may take several attempts.
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
  const hold = async (/** @type {() => Promise<unknown>} */ putIn) => {
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

/** The run at the top of the window, and its offset. */
function placeIn(/** @type {HTMLElement} */ content) {
  /** @type {NodeListOf<HTMLElement>} */
  const runs = content.querySelectorAll("[data-run]");
  for (const run of runs) {
    const { top, bottom } = run.getBoundingClientRect();
    if (bottom > 80) return { run: run.dataset.run ?? "", top: Math.round(top) };
  }
  return null;
}

/** Scrolls there; returns whether that worked. */
function goTo(/** @type {HTMLElement} */ content, /** @type {Place} */ { run, top }) {
  const element = content.querySelector(`[data-run="${CSS.escape(run)}"]`);
  if (!element) return false;
  page().scrollTop += element.getBoundingClientRect().top - top;
  return Math.abs(element.getBoundingClientRect().top - top) < 2;
}

/** @returns {Place | null} */
function recall(/** @type {string} */ key) {
  try {
    return JSON.parse(stored(key) ?? "null");
  } catch {
    return null;
  }
}

const remember = (/** @type {string} */ key, /** @type {Place | null} */ place) => store(key, place && JSON.stringify(place));
