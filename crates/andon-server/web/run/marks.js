// The marks on a timeline: a line for each, and its label.
//
// 1. Labels never overlap: on the timeline, marks that are close share a label; in the magnified stop each has its own row.

import { h } from "../dom.js";
import { since } from "../runwords.js";

const LETTER = 7;
const ROW = 16;

/** The most marks with a row of their own; with more, minor marks are lines without labels. */
const ROWS = 8;

/** @typedef {(at: number) => number} Place where a time is */

const main = (/** @type {Mark[]} */ all) => all.filter(({ isMain }) => isMain);
const within = (/** @type {Mark[]} */ all, /** @type {TimeWindow} */ window) => all.filter(({ at }) => at >= window.from && at <= window.to).sort((a, b) => a.at - b.at);
/** The marks that have labels. */
const worded = (/** @type {Mark[]} */ seen, /** @type {boolean} */ isMagnified) => (isMagnified && seen.length <= ROWS ? seen : main(seen));

/** @type {(all: Mark[], window: TimeWindow, isMagnified: boolean) => number} how many rows of labels there are */
export const markRows = (all, window, isMagnified) => (isMagnified ? Math.max(1, worded(within(all, window), true).length) : 1);

/**
 * @param {Mark[]} all
 * @param {TimeWindow} window
 * @param {Place} place
 * @param {{width: number, top: number, bottom: number}} size
 * @param {number} [zero] the instant that times are counted from, in the magnified stop
 */
export function marks(all, window, place, size, zero) {
  const seen = within(all, window);
  const rest = worded(seen, zero !== undefined);
  const line = (/** @type {Mark} */ { at, name, isMain }, /** @type {number} */ y) => h("svg:line", {
    x1: place(at), x2: place(at), y1: y, y2: size.bottom, "data-mark": name, "data-main": isMain || null,
  });
  const others = apart(seen.filter((mark) => !rest.includes(mark)), place).map((mark) => line(mark, size.top - 8));
  if (zero === undefined) return [...others, ...rest.map((mark) => line(mark, 20)), ...shared(rest, place, size.width)];
  return [...others, ...rest.flatMap((mark, row) => {
    const y = 14 + row * ROW;
    return [line(mark, y - 10), beside(mark, `${mark.name}${mark.at === zero ? "" : ` +${since(mark.at - zero)}`}`, y, place, size.width)];
  })];
}

/** Only the first mark on each pixel, so that there are no more lines than pixels. */
function apart(/** @type {Mark[]} */ all, /** @type {Place} */ place) {
  const seen = new Set();
  return all.filter(({ at }) => {
    const x = Math.round(place(at));
    return !seen.has(x) && seen.add(x);
  });
}

/**
 * The label after its line, or before it if there is no room.
 * @param {Mark} mark
 * @param {string} words
 * @param {number} y
 * @param {Place} place
 * @param {number} width
 */
function beside(mark, words, y, place, width) {
  const x = place(mark.at);
  const fits = x + 6 + words.length * LETTER < width;
  return h("svg:text", { x: fits ? x + 5 : x - 5, y, "text-anchor": fits ? "start" : "end" }, words);
}

/** Marks that are close share a label. */
function shared(/** @type {Mark[]} */ all, /** @type {Place} */ place, /** @type {number} */ width) {
  /** @type {Mark[][]} */
  const clusters = [];
  for (const mark of all) {
    const last = clusters.at(-1);
    if (last && place(mark.at) - place(last[last.length - 1].at) < mark.name.length * LETTER + 90) last.push(mark);
    else clusters.push([mark]);
  }
  return clusters.map((cluster) => {
    const words = `${cluster.map(({ name }) => name).join(" · ")} ${since(cluster[cluster.length - 1].at)}`;
    const half = (words.length * LETTER) / 2;
    const x = Math.min(Math.max(place(cluster[0].at), half + 4), width - half - 4);
    return h("svg:text", { x, y: 14, "text-anchor": "middle" }, words);
  });
}
