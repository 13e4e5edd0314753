// A run drawn to scale: what it did, what it waited for, and the instants of its stop.
//
// 1. All lanes have the same scale. You can zoom into a window of time; otherwise the whole run is shown.
// 2. It is drawn at most every `PACE` milliseconds, however fast the run is, and not at all while it is hidden.
// 3. Bars narrower than a few pixels are combined with their neighbours and show a count, so the number of elements depends on the
//    width of the chart, not on the run.
// 4. Every bar can be reached with the keyboard and has a name; the same data is available as a table.

import { announce, h, write } from "../dom.js";
import { number, sentence, several } from "../words.js";
import { since } from "../runwords.js";
import { drawing } from "./drawing.js";
import { stopInset } from "./inset.js";
import { tableOf } from "./tracetable.js";

const PACE = 250;
const ZOOM = 2;

/**
 * `window` is null while the whole run is shown; `pointed` is what is said of the bar that someone points at.
 * @typedef {{trace: Trace, window: TimeWindow | null, now: () => number, pointed: string, detail: HTMLElement}} View
 * @typedef {import("./trace.js").Trace} Trace
 * @typedef {(window: TimeWindow | null) => void} SetWindow
 * @typedef {(factor: number, at?: number) => void} Zoom
 */

/**
 * @param {Trace} trace
 * @param {{onPick: (seq: number) => void, now: () => number, signal: AbortSignal}} how `now` returns the time since the run started
 * @returns {{element: HTMLElement, changed: () => void, draw: () => void}} `draw` draws at once
 */
export function timeline(trace, { onPick, now, signal }) {
  /** @type {View} */
  const view = { trace, window: null, now, pointed: "", detail: h("p", { class: "detail small", "aria-hidden": "true" }) };
  const chart = drawing({
    label: "Timeline of the run. Use the arrow keys to move from bar to bar, Enter to show the event, plus and minus to zoom.",
    onPick,
    onDetail: (text) => {
      view.pointed = text;
      write(view.detail, text || hint(view));
    },
    onWindow: (window) => setWindow(window),
    onZoom: (factor, at) => zoom(factor, at),
  });
  const inset = stopInset();
  const said = h("p", { class: "small soft", role: "note" });
  const table = tableOf(trace);
  const redraw = paced(() => draw(view, chart, inset, said, table), signal);
  /** @type {SetWindow} */
  const setWindow = (window) => {
    view.window = window;
    announce(window ? `Showing ${since(window.from)} to ${since(window.to)}` : "Showing the whole run");
    redraw();
  };
  /** @type {Zoom} */
  const zoom = (factor, at) => setWindow(zoomed(view, factor, at));
  const move = (/** @type {number} */ part) => { if (view.window) setWindow(moved(view, view.window, part)); };
  new ResizeObserver(redraw).observe(chart.element);
  signal.addEventListener("abort", () => clearInterval(growing), { once: true });
  // A run in progress grows even while nothing arrives.
  const growing = setInterval(() => { if (!trace.isSettled && trace.bars) redraw(); }, PACE);
  const element = h("section", { class: "card timeline", "aria-labelledby": "timeline-name" },
    h("div", { class: "titlebar" }, h("h2", { id: "timeline-name" }, "Timeline"), buttons(zoom, move, setWindow)),
    chart.element, view.detail, said, inset.element, table.element);
  write(view.detail, hint(view));
  return { element, changed: redraw, draw: () => draw(view, chart, inset, said, table) };
}

const hint = (/** @type {View} */ { trace }) => (trace.bars ? "Point at a bar, or move to one with the keyboard, for details. Drag to zoom in." : "Nothing yet.");

function buttons(/** @type {Zoom} */ zoom, /** @type {(part: number) => void} */ move, /** @type {SetWindow} */ setWindow) {
  const button = (/** @type {string} */ label, /** @type {string} */ name, /** @type {() => void} */ onclick) => h("button", { type: "button", class: "plain", "aria-label": name, title: name, onclick }, label);
  return h("div", { class: "tools", role: "group", "aria-label": "Zoom" },
    button("‹", "Earlier", () => move(-0.5)), button("›", "Later", () => move(0.5)),
    button("−", "Zoom out", () => zoom(1 / ZOOM)), button("+", "Zoom in", () => zoom(ZOOM)),
    button("All", "Show the whole run", () => setWindow(null)));
}

/** The window of the whole run. */
function whole(/** @type {View} */ { trace, now }) {
  const end = trace.isSettled ? trace.latest : Math.max(now(), trace.latest);
  const from = trace.marks.reduce((least, { at }) => Math.min(least, at), 0);
  // A little room after the last instant, so that its mark is visible.
  return { from, to: Math.max(end, 0.001) + Math.max(end - from, 0.001) * 0.02 };
}

function zoomed(/** @type {View} */ view, /** @type {number} */ factor, /** @type {number | undefined} */ at) {
  const all = whole(view);
  const { from, to } = view.window ?? all;
  const middle = at ?? (from + to) / 2;
  const half = (to - from) / factor / 2;
  if (half * 2 >= all.to - all.from) return null;
  const begin = Math.min(Math.max(middle - Math.max(half, 0.0005), all.from), all.to - half * 2);
  return { from: begin, to: begin + Math.max(half * 2, 0.001) };
}

/** Moves the window by a part of its length, within the run. */
function moved(/** @type {View} */ view, /** @type {TimeWindow} */ window, /** @type {number} */ part) {
  const all = whole(view);
  const length = window.to - window.from;
  const from = Math.min(Math.max(window.from + length * part, all.from), all.to - length);
  return { from, to: from + length };
}

/**
 * @param {View} view
 * @param {ReturnType<typeof drawing>} chart
 * @param {{draw: (trace: Trace, now: number) => void}} inset
 * @param {HTMLElement} said
 * @param {{changed: () => void}} table
 */
function draw(view, chart, inset, said, table) {
  const { trace } = view;
  const window = view.window ?? whole(view);
  const now = trace.isSettled ? trace.latest : Math.max(view.now(), trace.latest);
  const { merged } = chart.draw(trace, window, now);
  const notes = [
    merged ? `${several(merged, "bar")} too narrow to show separately ${merged === 1 ? "is" : "are"} combined` : "",
    trace.crowded ? `${number(trace.crowded)} more ran at once than there are lanes` : "",
    trace.clock.isMixed ? "the run had more than one owner: times between them are by wall clock" : "",
  ].filter(Boolean);
  write(said, notes.map((note) => `${sentence(note)}.`).join(" "));
  said.hidden = notes.length === 0;
  if (!view.pointed) write(view.detail, hint(view));
  inset.draw(trace, now);
  table.changed();
}

/** Does the work now, or once `PACE` has passed since the last time (invariant 2). */
function paced(/** @type {() => void} */ work, /** @type {AbortSignal} */ signal) {
  let last = -PACE;
  let timer = 0;
  const go = () => {
    timer = 0;
    if (signal.aborted) return;
    last = performance.now();
    requestAnimationFrame(() => { if (!signal.aborted) work(); });
  };
  return () => {
    if (timer || signal.aborted) return;
    timer = setTimeout(go, Math.max(0, last + PACE - performance.now()));
  };
}
