// The strip charts: how many runs are live, and how long stops took, second by second over the last five minutes.
//
// 1. They are drawn to scale with an axis: runs from 0, stop times on a logarithmic scale.
// 2. The same is said in words.
// 3. They are drawn at most once per second; the colours come from the style sheet.

import { h, set, write } from "../dom.js";
import { folded } from "./folded.js";
import { number, spanUs } from "../words.js";

const SECONDS = 300;
const WIDE = 600;
const HIGH = 60;
/** Room for the full width of a line at the top and the bottom. */
const EDGE = 2;

/**
 * Makes the charts.
 * @returns {{element: HTMLElement, fold: HTMLElement, draw: (past: Api.Second[], now: number) => void,
 *   say: (past: Api.Second[], now: number, live: number, isOld: boolean) => void}} `say` writes the summary; `fold` is the button that unfolds the charts
 */
export function strip() {
  const live = panel("Live runs", ["area", "line"]);
  const stops = panel("Time to stop, per second", ["reach", "slowest", "median"]);
  const said = h("p", { class: "said number", "data-summary": true });
  const dot = (/** @type {string} */ kind) => h("i", { class: `dot ${kind}` });
  stops.name.append(h("span", { class: "key soft" }, dot("median"), "median ", dot("slowest"), "slowest"));
  const panels = h("div", { class: "panels", "aria-hidden": "true" }, live.element, stops.element);
  const element = h("section", { class: "strip", "aria-label": "The last five minutes" }, said, panels);
  return {
    element, fold: folded("Charts", panels).button,
    say: (past, now, many, isOld) => write(said, (isOld ? "Last known: " : "") + summary(past, now, many)),
    draw(past, now) {
      drawLive(live, past, now);
      drawStops(stops, past, now);
    },
  };
}

function panel(/** @type {string} */ name, /** @type {string[]} */ kinds) {
  const path = (/** @type {string} */ kind) => h("svg:path", { class: kind, "vector-effect": "non-scaling-stroke" });
  const drawn = Object.fromEntries(kinds.map((kind) => [kind, path(kind)]));
  const scale = h("div", { class: "scale soft number" });
  const grid = path("gridline");
  const svg = h("svg:svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none" }, grid, Object.values(drawn));
  const title = h("div", { class: "name small" }, name);
  const marks = ["−5 min", "−4", "−3", "−2", "−1", "now"].map((text) => h("span", null, text));
  const time = h("div", { class: "time soft number" }, marks);
  return { element: h("div", { class: "panel" }, title, scale, svg, time), name: title, scale, grid, drawn };
}

/** The x position of a second: now is at the right. */
const across = (/** @type {Api.Second} */ second, /** @type {number} */ now) => WIDE - ((now - Date.parse(second.at)) / 1000 / SECONDS) * WIDE;
const round = (/** @type {number} */ value) => Math.round(value * 10) / 10;

/** @typedef {(on: ReturnType<typeof panel>, past: Api.Second[], now: number) => void} Draw */

/** @type {Draw} */
function drawLive({ drawn, scale, grid }, past, now) {
  const most = nice(Math.max(1, ...past.map(({ live }) => live)));
  const y = (/** @type {number} */ value) => round(HIGH - EDGE - (value / most) * (HIGH - 2 * EDGE));
  const seen = past.filter((second) => across(second, now) >= 0);
  const points = seen.map((second) => `${round(Math.min(WIDE, across(second, now)))} ${y(second.live)}`);
  const line = points.length ? `M${points.join("L")}` : "";
  set(drawn.line, "d", line);
  const [first, last] = [seen[0], seen.at(-1)];
  const from = first ? round(across(first, now)) : 0;
  const to = last ? round(Math.min(WIDE, across(last, now))) : 0;
  set(drawn.area, "d", line && `${line}L${to} ${HIGH}L${from} ${HIGH}Z`);
  set(grid, "d", [0, most / 2, most].map((value) => `M0 ${y(value)}H${WIDE}`).join(""));
  labels(scale, [[most, number(most)], [0, "0"]], y);
}

/** @type {Draw} */
function drawStops({ drawn, scale, grid }, past, now) {
  const seen = past.filter(hasStops).filter((second) => across(second, now) >= 0);
  const low = Math.min(3, ...seen.map(({ median_us }) => Math.floor(Math.log10(Math.max(1, median_us)))));
  const high = Math.max(6, ...seen.map(({ slowest_us }) => Math.ceil(Math.log10(Math.max(1, slowest_us)))));
  const y = (/** @type {number} */ us) => round(HIGH - EDGE - ((Math.log10(Math.max(1, us)) - low) / (high - low)) * (HIGH - 2 * EDGE));
  const dots = (/** @type {"median_us" | "slowest_us"} */ field) => seen.map((second) => `M${round(across(second, now))} ${y(second[field])}h.01`).join("");
  set(drawn.median, "d", dots("median_us"));
  set(drawn.slowest, "d", dots("slowest_us"));
  const reach = (/** @type {Stops} */ second) => `M${round(across(second, now))} ${y(second.median_us)}V${y(second.slowest_us)}`;
  set(drawn.reach, "d", seen.map(reach).join(""));
  const powers = Array.from({ length: high - low + 1 }, (_, step) => 10 ** (low + step));
  set(grid, "d", powers.map((us) => `M0 ${y(us)}H${WIDE}`).join(""));
  // Only as many labels as fit.
  const every = powers.length > 5 ? 2 : 1;
  labels(scale, powers.filter((_, at) => at % every === 0).map((us) => [us, spanUs(us).replace(".0", "")]), y);
}

/** @typedef {Api.Second & {median_us: number, slowest_us: number}} Stops */

/** @type {(second: Api.Second) => second is Stops} whether runs were stopped in this second */
const hasStops = (second) => second.cancelled > 0 && second.median_us !== null && second.slowest_us !== null;

/**
 * Writes the labels of the axis if they have changed.
 * @param {HTMLElement} scale
 * @param {[number, string][]} all
 * @param {(value: number) => number} y
 */
function labels(scale, all, y) {
  const wanted = JSON.stringify(all);
  if (scale.dataset.shown === wanted) return;
  scale.dataset.shown = wanted;
  scale.replaceChildren(...all.map(([value, text]) => {
    const label = h("span", null, text);
    label.style.top = `${(y(value) / HIGH) * 100}%`;
    return label;
  }));
}

/** The next round number: 1, 2 or 5 times a power of ten, and at least 2. */
function nice(/** @type {number} */ value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return Math.max(2, [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) ?? value);
}

/** The last minute in words (invariant 2). */
function summary(/** @type {Api.Second[]} */ past, /** @type {number} */ now, /** @type {number} */ live) {
  const minute = past.filter(({ at }) => now - Date.parse(at) < 60_000);
  const sum = (/** @type {"begun" | "settled" | "cancelled"} */ field) => minute.reduce((all, second) => all + (second[field] ?? 0), 0);
  const stops = minute.filter(hasStops);
  const begun = `${number(live)} live. In the last minute: ${number(sum("begun"))} started, ${number(sum("settled"))} settled`;
  if (!stops.length) return `${begun}, 0 stopped.`;
  const stopped = sum("cancelled");
  const slowest = Math.max(...stops.map(({ slowest_us }) => slowest_us));
  const about = stops.length > 1 ? "about " : "";
  if (stopped === 1) return `${begun}, 1 stopped in ${spanUs(slowest)}.`;
  return `${begun}, ${number(stopped)} stopped: median ${about}${spanUs(middle(stops))}, slowest ${spanUs(slowest)}.`;
}

/** The median of the medians of the seconds, weighted by the number of stops. */
function middle(/** @type {Stops[]} */ stops) {
  const order = [...stops].sort((a, b) => a.median_us - b.median_us);
  const half = order.reduce((all, { cancelled }) => all + cancelled, 0) / 2;
  let passed = 0;
  return order.find(({ cancelled }) => (passed += cancelled) >= half)?.median_us;
}
