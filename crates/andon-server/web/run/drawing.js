// Draws a timeline in SVG: an axis, lanes with bars, and marks.
//
// 1. A bar keeps its element from one drawing to the next, so that the focus stays where it is.
// 2. The chart is one tab stop. Within it the arrow keys move from bar to bar.

import { h, set, write } from "../dom.js";
import { scale, ticks } from "./axis.js";
import { barWords, bars } from "./bars.js";
import { markRows, marks } from "./marks.js";
import { span } from "../words.js";

const LANE = 24;
const FOOT = 22;
const RIGHT = 14;
const GROUPS = { waits: "waits", model: "model", tools: "tools" };
/** @type {Record<string, string>} what is added to the label of a bar that did not end normally */
const BADLY = {
  cut: ", cut", unknown: ", cut", failed: ", failed", lost: ", lost", leaked: ", leaked", never_started: ", never started", panicked: ", crashed",
};
/** The approximate width of a character in pixels. */
const LETTER = 6.6;

/**
 * `zero` is the instant that times are counted from, if not the start of the run.
 * @typedef {{label: string, zero?: () => number, onPick?: (seq: number) => void, onDetail?: (text: string) => void,
 *   onWindow?: (window: TimeWindow) => void, onZoom?: (factor: number, at: number) => void}} How
 * @typedef {ReturnType<typeof scale>} Scale
 * @typedef {import("./trace.js").Trace} Trace
 * @typedef {{group: Group, lane: Lane, index: number}} LaneRow
 */
/**
 * A drawing: `known` are the elements of the bars by their keys, `order` the same in the order of the lanes.
 * @typedef {{how: How, svg: SVGSVGElement, element: HTMLElement, known: Map<string, SVGGElement>, order: SVGGElement[], place: Scale,
 *   layers: {axis: SVGGElement, lanes: SVGGElement, marks: SVGGElement, brush: SVGRectElement}, left: number, top: number}} Drawing
 */

/** @param {How} how */
export function drawing(how) {
  const layer = (/** @type {string} */ name) => h("svg:g", { class: name });
  const layers = { axis: layer("axis"), lanes: layer("lanes"), marks: layer("marks"), brush: h("svg:rect", { class: "brush" }) };
  const svg = h("svg:svg", { class: "chart", role: "group", "aria-label": how.label }, layers.axis, layers.marks, layers.lanes, layers.brush);
  const element = h("div", { class: "chartbox" }, svg);
  /** @type {Drawing} */
  const state = { how, svg, element, layers, known: new Map(), order: [], place: scale(0, 1, 0, 1), left: 0, top: 42 };
  keyboard(state);
  pointer(state);
  return {
    element,
    draw: (/** @type {Trace} */ trace, /** @type {TimeWindow} */ window, /** @type {number} */ now) => draw(state, trace, window, now),
  };
}

/**
 * @param {Drawing} state
 * @param {Trace} trace
 * @param {TimeWindow} window
 * @param {number} now
 */
function draw(state, trace, window, now) {
  const width = Math.max(state.element.clientWidth, 240);
  const left = width < 560 ? 52 : 76;
  state.left = left;
  state.place = scale(window.from, window.to, left, width - RIGHT);
  const rows = rowsOf(trace, window, state.how.zero === undefined ? null : now);
  state.top = 26 + markRows(trace.marks, window, state.how.zero !== undefined) * 16;
  const height = state.top + Math.max(rows.length, 1) * LANE + FOOT;
  set(state.svg, "viewBox", `0 0 ${width} ${height}`);
  set(state.svg, "width", width);
  set(state.svg, "height", height);
  axis(state, window, width, height, rows);
  const merged = lanes(state, rows, window, now);
  const size = { width, top: state.top, bottom: height - FOOT };
  state.layers.marks.replaceChildren(...marks(trace.marks, window, state.place, size, state.how.zero?.()));
  return { merged };
}

/**
 * The lanes that have something to show; in a magnified view only those with bars in the window.
 * @param {Trace} trace
 * @param {TimeWindow} window
 * @param {number | null} now null if nothing is magnified
 * @returns {LaneRow[]}
 */
function rowsOf({ groups }, window, now) {
  const named = /** @type {[Group, Lane[]][]} */ (Object.entries(groups));
  const all = named.flatMap(([group, lanes]) => lanes.map((lane, index) => ({ group, lane, index })));
  return all.filter(({ lane }) => lane.length && (now === null || lane.some(({ from, to }) => from <= window.to && (to ?? now) >= window.from)));
}

/**
 * @param {Drawing} state
 * @param {TimeWindow} window
 * @param {number} width
 * @param {number} height
 * @param {LaneRow[]} rows
 */
function axis({ layers, place, left, top, how }, window, width, height, rows) {
  const zero = how.zero?.() ?? 0;
  const found = ticks(window.from - zero, window.to - zero, (width - left) / 84).map(({ at, label }) => {
    const x = place(at + zero);
    return h("svg:g", null, h("svg:line", { x1: x, x2: x, y1: top, y2: height - FOOT }),
      h("svg:text", { x, y: height - 6, "text-anchor": x > width - 40 ? "end" : "middle" }, label));
  });
  const names = rows.filter(({ group }, at) => rows[at - 1]?.group !== group).map(({ group }) => {
    const y = top + rows.findIndex((row) => row.group === group) * LANE;
    return h("svg:g", { class: "lanename" }, h("svg:line", { x1: 0, x2: width, y1: y, y2: y }), h("svg:text", { x: 4, y: y + 16 }, GROUPS[group]));
  });
  layers.axis.replaceChildren(...found, ...names);
}

/**
 * @param {Drawing} state
 * @param {LaneRow[]} rows
 * @param {TimeWindow} window
 * @param {number} now
 */
function lanes(state, rows, window, now) {
  const seen = new Set();
  let merged = 0;
  state.order = [];
  rows.forEach(({ group, lane, index }, row) => {
    const found = bars(lane, window, state.place, now);
    found.forEach((bar, at) => {
      // A combined bar stands for different bars each time, so its element is identified by its position.
      const key = `${group} ${index} ${bar.count > 1 ? `at ${at}` : bar.key}`;
      seen.add(key);
      merged += bar.count > 1 ? bar.count : 0;
      const room = (found[at + 1]?.x ?? state.place(window.to)) - bar.x - bar.width;
      show(state, key, bar, state.top + row * LANE, room);
    });
  });
  for (const [key, element] of state.known) {
    if (seen.has(key)) continue;
    element.remove();
    state.known.delete(key);
  }
  rove(state);
  return merged;
}

/**
 * @param {Drawing} state
 * @param {string} key
 * @param {DrawnBar} bar
 * @param {number} y
 * @param {number} room
 */
function show(state, key, bar, y, room) {
  const element = state.known.get(key) ?? made(state, key);
  state.order.push(element);
  const { x, width, group, how, from, seq } = bar;
  // A bar is moved as a whole: while the run is live all bars move, and little else changes.
  keep(element, { transform: `translate(${x} ${y})`, "data-kind": group, "data-how": how, "data-seq": seq, "data-at": from });
  const [title, body, first, edge, text] = element.children;
  keep(body, { width });
  keep(first, { width: bar.first !== undefined && bar.count === 1 ? Math.max(0, Math.min(width, bar.firstX - x)) : 0 });
  keep(edge, { x: Math.max(0, width - 3), width: Math.min(3, width) });
  const words = barWords(bar);
  write(title, words);
  keep(element, { "aria-label": words });
  label(text, bar, width, room);
}

/** @type {WeakMap<Element, Record<string, string | number>>} the attributes that each element has */
const written = new WeakMap();

/** Sets only the attributes that have changed. */
function keep(/** @type {Element} */ element, /** @type {Record<string, string | number>} */ attributes) {
  let known = written.get(element);
  if (!known) written.set(element, known = {});
  for (const name in attributes) {
    if (known[name] === attributes[name]) continue;
    known[name] = attributes[name];
    set(element, name, attributes[name]);
  }
}

/**
 * The label, within the bar or after it, wherever it fits.
 * @param {Element} text
 * @param {DrawnBar} bar
 * @param {number} width
 * @param {number} room
 */
function label(text, bar, width, room) {
  const long = bar.count > 1 ? `${bar.count}×` : `${bar.name} ${span(bar.to - bar.from)}${BADLY[bar.how] ?? ""}`;
  const fits = (/** @type {string} */ words, /** @type {number} */ space) => words.length * LETTER + 10 <= space;
  const short = bar.count > 1 ? long : bar.name;
  const inside = [long, short].find((words) => fits(words, width));
  const behind = [long, short].find((words) => fits(words, room));
  write(text, inside ?? behind ?? "");
  keep(text, { x: inside ? 6 : width + 5, class: inside ? "in" : "behind" });
}

const BOX = { y: 3, height: LANE - 6 };

function made(/** @type {Drawing} */ state, /** @type {string} */ key) {
  const element = h("svg:g", { class: "piece", role: "img", tabindex: -1 },
    h("svg:title"), h("svg:rect", { class: "barbody", rx: 3, ...BOX }), h("svg:rect", { class: "first", rx: 3, ...BOX }),
    h("svg:rect", { class: "edge", ...BOX }), h("svg:text", { y: 16 }));
  state.known.set(key, element);
  state.layers.lanes.append(element);
  return element;
}

/** Makes exactly one bar reachable with Tab (invariant 2). */
function rove(/** @type {Drawing} */ state) {
  const chosen = state.order.find((element) => element === document.activeElement) ??
    state.order.find((element) => element.getAttribute("tabindex") === "0") ?? state.order[0];
  for (const element of state.order) {
    const wanted = element === chosen ? "0" : "-1";
    if (element.getAttribute("tabindex") !== wanted) set(element, "tabindex", wanted);
  }
}

function keyboard(/** @type {Drawing} */ state) {
  const { svg, how } = state;
  const go = (/** @type {SVGGElement | undefined} */ element) => {
    if (!element) return;
    for (const other of state.order) set(other, "tabindex", other === element ? 0 : -1);
    element.focus();
  };
  svg.addEventListener("keydown", (event) => {
    const at = state.order.findIndex((element) => element === document.activeElement);
    if (at < 0) return;
    const element = state.order[at];
    const time = Number(element.dataset.at);
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowRight: () => go(state.order[at + 1]), ArrowDown: () => go(state.order[at + 1]),
      ArrowLeft: () => go(state.order[at - 1]), ArrowUp: () => go(state.order[at - 1]),
      Home: () => go(state.order[0]), End: () => go(state.order.at(-1)),
      Enter: () => how.onPick?.(Number(element.dataset.seq)),
      "+": () => how.onZoom?.(2, time), "-": () => how.onZoom?.(0.5, time),
    };
    const does = keys[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does();
  });
  const tell = (/** @type {Event} */ event) => how.onDetail?.(piece(event)?.getAttribute("aria-label") ?? "");
  svg.addEventListener("focusin", tell);
  svg.addEventListener("pointermove", tell);
  svg.addEventListener("pointerleave", () => how.onDetail?.(""));
}

/** @returns {SVGGElement | null} the bar that an event is on */
const piece = (/** @type {Event} */ { target }) => (target instanceof Element ? target.closest(".piece") : null);

/** Dragging zooms in; a click on a bar shows its event. */
function pointer(/** @type {Drawing} */ state) {
  const { svg, how, layers } = state;
  /** @type {number | null} */
  let from = null;
  const at = (/** @type {PointerEvent} */ event) => Math.max(state.left, event.clientX - svg.getBoundingClientRect().left);
  svg.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType !== "touch") from = at(event); });
  svg.addEventListener("pointermove", (event) => {
    if (from === null || !how.onWindow) return;
    const [a, b] = [from, at(event)].sort((one, other) => one - other);
    const box = { x: a, y: state.top - 4, width: b - a, height: Math.max(0, Number(svg.getAttribute("height")) - state.top - FOOT + 8) };
    for (const [name, value] of Object.entries(box)) set(layers.brush, name, value);
  });
  svg.addEventListener("pointerup", (event) => {
    set(layers.brush, "width", 0);
    const [a, b] = [from ?? 0, at(event)].sort((one, other) => one - other);
    const isDrag = from !== null && b - a > 6;
    from = null;
    if (isDrag) how.onWindow?.({ from: state.place.back(a), to: state.place.back(b) });
    else {
      const seq = piece(event)?.dataset.seq;
      if (seq) how.onPick?.(Number(seq));
    }
  });
  svg.addEventListener("pointercancel", () => { from = null; set(layers.brush, "width", 0); });
}
