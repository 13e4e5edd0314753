// The bars of a lane in a window of time: where each is, and which are drawn together.
//
// 1. Bars come in the order of their beginnings, which is the order of the lane.
// 2. A bar that is narrower than `NARROW` is drawn together with the one before it if that is narrow, too, and near: at most
//    one bar every `NARROW` pixels or so.

import { several, span } from "./words.js";
import { HOW, since } from "./runwords.js";

const NARROW = 3;
/** Nothing is thinner: what happened is seen, however short it was. */
const THINNEST = 2;

/**
 * @param {import("./trace.js").Bar[]} lane
 * @param {{from: number, to: number}} window
 * @param {(at: number) => number} place
 * @param {number} now where open bars end
 */
export function bars(lane, window, place, now) {
  const found = [];
  for (let index = firstIn(lane, window.from); index < lane.length; index += 1) {
    const bar = lane[index];
    if (bar.from > window.to) break;
    const to = bar.to ?? Math.max(now, bar.from);
    if (to < window.from) continue;
    const x = place(Math.max(bar.from, window.from));
    const right = place(Math.min(to, window.to));
    const last = found.at(-1);
    if (last && right - x < NARROW && last.isNarrow && x - (last.x + last.width) < NARROW && right - last.x < NARROW * 4) {
      last.count += 1;
      last.to = to;
      last.width = Math.max(THINNEST, right - last.x);
      if (last.how !== bar.how) last.how = "several";
      continue;
    }
    found.push({
      ...bar, to, isOpen: bar.to === null, x, width: Math.max(THINNEST, right - x), count: 1, isNarrow: right - x < NARROW,
      firstX: bar.first === undefined ? x : place(Math.min(Math.max(bar.from + bar.first, window.from), window.to)),
    });
  }
  return found;
}

/** The first bar that can be seen: those before it end before the window, as far as a lane's bars do not overlap. */
function firstIn(lane, from) {
  let [low, high] = [0, lane.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((lane[middle].to ?? Infinity) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

const GROUP = { waits: "wait", model: "model call", tools: "tool call" };

/** A bar in words: what, when, how long, how it ended. */
export function barWords(bar) {
  if (bar.count > 1) {
    return `${bar.count} ${GROUP[bar.group]}s, from ${since(bar.from)} to ${since(bar.to)}: zoom in to see them one by one`;
  }
  const length = bar.isOpen ? `for ${span(bar.to - bar.from)} so far` : `took ${span(bar.to - bar.from)}`;
  const first = bar.first === undefined ? "" : `, first piece after ${span(bar.first)}`;
  const detail = bar.detail && bar.detail !== bar.name ? ` (${bar.detail})` : "";
  return `${GROUP[bar.group]} ${bar.name}${detail}: began at ${since(bar.from)}, ${length}${first}; ${HOW[bar.how] ?? bar.how}`;
}

/** How many bars there are, in words. */
export const barCount = (count) => several(count, "bar");
