// The bars of a lane in a window of time: where each is, and which are combined.
//
// 1. The bars of a lane are sorted by their start.
// 2. A bar narrower than `NARROW` pixels is combined with all bars that end within `TOGETHER` pixels of its start.
// 3. The work depends on the number of pixels, not on the number of bars, except in a lane whose bars overlap.

import { span } from "../words.js";
import { HOW, since } from "../runwords.js";

const NARROW = 3;
const TOGETHER = 8;
/** The least width of a bar, so that even the shortest is visible. */
const THINNEST = 2;

/** @typedef {ReturnType<typeof import("./axis.js").scale>} Scale */

/**
 * @param {Lane} lane
 * @param {TimeWindow} window
 * @param {Scale} place
 * @param {number} now the end of open bars
 */
export function bars(lane, window, place, now) {
  /** @type {DrawnBar[]} */
  const found = [];
  let index = lane.overlap ? 0 : firstBehind(lane, (bar) => (bar.to ?? Infinity) < window.from);
  while (index < lane.length && lane[index].from <= window.to) {
    const bar = one(lane[index], window, place, now);
    const next = bar.isNarrow && !lane.overlap ? together(lane, index, bar, place) : index + 1;
    if (next > index + 1) {
      const last = lane[next - 1];
      Object.assign(bar, { count: next - index, to: last.to ?? now, how: "several", first: undefined });
      bar.width = Math.max(THINNEST, place(Math.min(bar.to, window.to)) - bar.x);
    }
    if (bar.to >= window.from) found.push(bar);
    index = next;
  }
  return found;
}

/**
 * A bar as it is drawn.
 * @param {Bar} bar
 * @param {TimeWindow} window
 * @param {Scale} place
 * @param {number} now
 * @returns {DrawnBar}
 */
function one(bar, window, place, now) {
  const to = bar.to ?? Math.max(now, bar.from);
  const inWindow = (/** @type {number} */ at) => Math.min(Math.max(at, window.from), window.to);
  const x = place(inWindow(bar.from));
  const wide = place(inWindow(to)) - x;
  return {
    ...bar, to, isOpen: bar.to === null, x, width: Math.max(THINNEST, wide), count: 1, isNarrow: wide < NARROW,
    firstX: bar.first === undefined ? x : place(inWindow(bar.from + bar.first)),
  };
}

/**
 * The index after the last bar that is combined with this one. A binary search, because there may be a million (invariant 3).
 * @param {Lane} lane
 * @param {number} index
 * @param {DrawnBar} bar
 * @param {Scale} place
 */
function together(lane, index, bar, place) {
  const end = place.back(bar.x + TOGETHER);
  const next = firstBehind(lane, ({ from, to }) => from <= end && (to ?? Infinity) <= end);
  return Math.max(next, index + 1);
}

/** The index of the first bar for which `isBefore` is false; it must be true for all earlier bars and false for all later ones. */
function firstBehind(/** @type {Lane} */ lane, /** @type {(bar: Bar) => boolean} */ isBefore) {
  let [low, high] = [0, lane.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(lane[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

const GROUP = { waits: "wait", model: "model call", tools: "tool call" };

/** A bar in words: what it is, when it started, how long it took, how it ended. */
export function barWords(/** @type {DrawnBar} */ bar) {
  if (bar.count > 1) {
    return `${bar.count} ${GROUP[bar.group]}s, from ${since(bar.from)} to ${since(bar.to)}: zoom in to see each`;
  }
  const length = bar.isOpen ? `for ${span(bar.to - bar.from)} so far` : `took ${span(bar.to - bar.from)}`;
  const first = bar.first === undefined ? "" : `, first token after ${span(bar.first)}`;
  const detail = bar.detail && bar.detail !== bar.name ? ` (${bar.detail})` : "";
  return `${GROUP[bar.group]} ${bar.name}${detail}: started at ${since(bar.from)}, ${length}${first}; ${HOW[bar.how] ?? bar.how}`;
}
