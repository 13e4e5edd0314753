// The bars of a lane in a window of time: where each is, and which are drawn together.
//
// 1. Bars come in the order of their beginnings, which is the order of the lane.
// 2. A bar that is narrower than `NARROW` pixels is drawn together with all that end within `TOGETHER` pixels of its beginning.
// 3. The work depends on the pixels, not on the bars, except in a lane whose bars overlap.

import { span } from "../words.js";
import { HOW, since } from "../runwords.js";

const NARROW = 3;
const TOGETHER = 8;
/** Nothing is thinner: what happened is seen, however short it was. */
const THINNEST = 2;

/**
 * @param {import("./trace.js").Bar[] & {overlap?: boolean}} lane
 * @param {{from: number, to: number}} window
 * @param {((at: number) => number) & {back: (x: number) => number}} place
 * @param {number} now where open bars end
 */
export function bars(lane, window, place, now) {
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

/** A bar as it is drawn. */
function one(bar, window, place, now) {
  const to = bar.to ?? Math.max(now, bar.from);
  const inWindow = (at) => Math.min(Math.max(at, window.from), window.to);
  const x = place(inWindow(bar.from));
  const wide = place(inWindow(to)) - x;
  return {
    ...bar, to, isOpen: bar.to === null, x, width: Math.max(THINNEST, wide), count: 1, isNarrow: wide < NARROW,
    firstX: bar.first === undefined ? x : place(inWindow(bar.from + bar.first)),
  };
}

/** Behind which bar those end that are drawn together with this one: found by halves, for there may be a million (invariant 3). */
function together(lane, index, bar, place) {
  const end = place.back(bar.x + TOGETHER);
  const next = firstBehind(lane, ({ from, to }) => from <= end && (to ?? Infinity) <= end);
  return Math.max(next, index + 1);
}

/** The first bar for which it is not so; it is so for all before it and for none behind it. */
function firstBehind(lane, isBefore) {
  let [low, high] = [0, lane.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(lane[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

const GROUP = { waits: "wait", model: "model call", tools: "tool call" };

/** A bar in words: what, when, how long, how it ended. */
export function barWords(bar) {
  if (bar.count > 1) {
    return `${bar.count} ${GROUP[bar.group]}s, from ${since(bar.from)} to ${since(bar.to)}: zoom in to see each`;
  }
  const length = bar.isOpen ? `for ${span(bar.to - bar.from)} so far` : `took ${span(bar.to - bar.from)}`;
  const first = bar.first === undefined ? "" : `, first token after ${span(bar.first)}`;
  const detail = bar.detail && bar.detail !== bar.name ? ` (${bar.detail})` : "";
  return `${GROUP[bar.group]} ${bar.name}${detail}: started at ${since(bar.from)}, ${length}${first}; ${HOW[bar.how] ?? bar.how}`;
}
