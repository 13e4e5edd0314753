// The drawing of a timeline in SVG: an axis, lanes with bars, and marks.
//
// 1. An element that stands for the same bar is the same element from one drawing to the next: the focus stays where it is.
// 2. The drawing is one stop of the Tab key. Within it arrow keys go from bar to bar.

import { h, set, write } from "./dom.js";
import { scale, ticks } from "./axis.js";
import { barWords, bars } from "./bars.js";
import { span } from "./words.js";

const LANE = 24;
const HEAD = 42;
const FOOT = 22;
const RIGHT = 14;
const GROUPS = { waits: "waits", model: "model", tools: "tools" };
/** About how wide a character is. */
const LETTER = 6.6;

/**
 * @param {{label: string, onPick?: (seq: number) => void, onDetail?: (text: string) => void,
 *   onWindow?: (window: {from: number, to: number}) => void, onZoom?: (factor: number, at: number) => void}} how
 */
export function drawing(how) {
  const layers = { axis: h("svg:g", { class: "axis" }), lanes: h("svg:g"), marks: h("svg:g", { class: "marks" }), brush: h("svg:rect", { class: "brush" }) };
  const svg = h("svg:svg", { class: "chart", role: "group", "aria-label": how.label }, layers.axis, layers.lanes, layers.marks, layers.brush);
  const element = h("div", { class: "chartbox" }, svg);
  const state = { how, svg, element, layers, known: new Map(), order: [], place: scale(0, 1, 0, 1), left: 0 };
  keyboard(state);
  pointer(state);
  return { element, draw: (trace, window, now) => draw(state, trace, window, now) };
}

function draw(state, trace, window, now) {
  const width = Math.max(state.element.clientWidth, 240);
  const left = width < 560 ? 52 : 76;
  state.left = left;
  state.place = scale(window.from, window.to, left, width - RIGHT);
  const rows = Object.entries(trace.groups).flatMap(([group, lanes]) => lanes.map((lane, index) => ({ group, lane, index })));
  const height = HEAD + Math.max(rows.length, 1) * LANE + FOOT;
  set(state.svg, "viewBox", `0 0 ${width} ${height}`);
  set(state.svg, "width", width);
  set(state.svg, "height", height);
  axis(state, window, width, height, rows);
  const merged = lanes(state, rows, window, now);
  marks(state.layers.marks, trace.marks, window, state.place, width, height);
  return { merged };
}

function axis({ layers, place, left }, window, width, height, rows) {
  const found = ticks(window.from, window.to, (width - left) / 84).map(({ at, label }) => {
    const x = place(at);
    return h("svg:g", null, h("svg:line", { x1: x, x2: x, y1: HEAD, y2: height - FOOT }),
      h("svg:text", { x, y: height - 6, "text-anchor": x > width - 40 ? "end" : "middle" }, label));
  });
  const names = rows.filter(({ index }) => index === 0).map(({ group }) => {
    const y = HEAD + rows.findIndex((row) => row.group === group) * LANE;
    return h("svg:g", { class: "name" }, h("svg:line", { x1: 0, x2: width, y1: y, y2: y }), h("svg:text", { x: 4, y: y + 16 }, GROUPS[group]));
  });
  layers.axis.replaceChildren(...found, ...names);
}

function lanes(state, rows, window, now) {
  const seen = new Set();
  let merged = 0;
  state.order = [];
  rows.forEach(({ group, lane, index }, row) => {
    const found = bars(lane, window, state.place, now);
    found.forEach((bar, at) => {
      const key = `${group} ${index} ${bar.key}`;
      seen.add(key);
      merged += bar.count > 1 ? bar.count : 0;
      const room = (found[at + 1]?.x ?? state.place(window.to)) - bar.x - bar.width;
      show(state, key, bar, HEAD + row * LANE, room);
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

function show(state, key, bar, y, room) {
  const element = state.known.get(key) ?? made(state, key);
  state.order.push(element);
  const { x, width, group, how, from, seq } = bar;
  for (const [name, value] of Object.entries({ "data-kind": group, "data-how": how, "data-seq": seq, "data-at": from })) set(element, name, value);
  const [title, body, first, edge, text] = element.children;
  const box = { x, y: y + 3, height: LANE - 6, width };
  for (const [name, value] of Object.entries(box)) set(body, name, value);
  const hasFirst = bar.first !== undefined && bar.count === 1;
  const firstWidth = hasFirst ? Math.max(0, Math.min(width, bar.firstX - x)) : 0;
  for (const [name, value] of Object.entries({ ...box, width: firstWidth })) set(first, name, value);
  for (const [name, value] of Object.entries({ ...box, x: Math.max(x, x + width - 3), width: Math.min(3, width) })) set(edge, name, value);
  const words = barWords(bar);
  write(title, words);
  set(element, "aria-label", words);
  label(text, bar, y, width, room);
}

/** The name within the bar, or behind it if there is room. */
function label(text, bar, y, width, room) {
  const long = bar.count > 1 ? `${bar.count}×` : `${bar.name} ${span(bar.to - bar.from)}`;
  const fits = (words, space) => words.length * LETTER + 10 <= space;
  const short = bar.count > 1 ? long : bar.name;
  const inside = [long, short].find((words) => fits(words, width));
  const behind = [long, short].find((words) => fits(words, room));
  write(text, inside ?? behind ?? "");
  set(text, "x", inside ? bar.x + 6 : bar.x + width + 5);
  set(text, "y", y + 16);
  set(text, "class", inside ? "in" : "behind");
}

function made(state, key) {
  const element = h("svg:g", { class: "piece", role: "img", tabindex: -1 },
    h("svg:title"), h("svg:rect", { class: "body", rx: 3 }), h("svg:rect", { class: "first", rx: 3 }), h("svg:rect", { class: "edge" }), h("svg:text"));
  state.known.set(key, element);
  state.layers.lanes.append(element);
  return element;
}

/** Exactly one bar is reached with Tab (invariant 2). */
function rove(state) {
  const chosen = state.order.find((element) => element === document.activeElement) ??
    state.order.find((element) => element.getAttribute("tabindex") === "0") ?? state.order[0];
  for (const element of state.order) {
    const wanted = element === chosen ? "0" : "-1";
    if (element.getAttribute("tabindex") !== wanted) set(element, "tabindex", wanted);
  }
}

function marks(layer, all, window, place, width, height) {
  const seen = all.filter(({ at }) => at >= window.from && at <= window.to).sort((a, b) => a.at - b.at);
  const lines = seen.map(({ name, at, isMain }) => h("svg:line", { x1: place(at), x2: place(at), y1: isMain ? 20 : 32, y2: height - FOOT, "data-mark": name, "data-main": isMain || null }));
  // Marks that would be written over each other share their words.
  const clusters = [];
  for (const mark of seen.filter(({ isMain }) => isMain)) {
    const last = clusters.at(-1);
    if (last && place(mark.at) - place(last.at(-1).at) < mark.name.length * LETTER + 76) last.push(mark);
    else clusters.push([mark]);
  }
  const words = clusters.map((cluster) => {
    const text = `${cluster.map(({ name }) => name).join(" · ")} ${span(cluster.at(-1).at)}`;
    const x = place(cluster[0].at);
    const half = (text.length * LETTER) / 2;
    const middle = Math.min(Math.max(x, half + 4), width - half - 4);
    return h("svg:text", { x: middle, y: 14, "text-anchor": "middle" }, text);
  });
  layer.replaceChildren(...lines, ...words);
}

function keyboard(state) {
  const { svg, how } = state;
  const go = (element) => {
    if (!element) return;
    for (const other of state.order) set(other, "tabindex", other === element ? 0 : -1);
    element.focus();
  };
  svg.addEventListener("keydown", (event) => {
    const at = state.order.indexOf(document.activeElement);
    if (at < 0) return;
    const element = state.order[at];
    const time = Number(element.dataset.at);
    const does = {
      ArrowRight: () => go(state.order[at + 1]), ArrowDown: () => go(state.order[at + 1]),
      ArrowLeft: () => go(state.order[at - 1]), ArrowUp: () => go(state.order[at - 1]),
      Home: () => go(state.order[0]), End: () => go(state.order.at(-1)),
      Enter: () => how.onPick?.(Number(element.dataset.seq)),
      "+": () => how.onZoom?.(2, time), "-": () => how.onZoom?.(0.5, time),
    }[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does();
  });
  const tell = (event) => how.onDetail?.(event.target.closest?.(".piece")?.getAttribute("aria-label") ?? "");
  svg.addEventListener("focusin", tell);
  svg.addEventListener("pointermove", tell);
  svg.addEventListener("pointerleave", () => how.onDetail?.(""));
}

/** A drag looks closer; a press on a bar shows its event. */
function pointer(state) {
  const { svg, how, layers } = state;
  let from = null;
  const at = (event) => Math.max(state.left, event.clientX - svg.getBoundingClientRect().left);
  svg.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType !== "touch") from = at(event); });
  svg.addEventListener("pointermove", (event) => {
    if (from === null || !how.onWindow) return;
    const [a, b] = [from, at(event)].sort((one, other) => one - other);
    const box = { x: a, y: HEAD - 4, width: b - a, height: Math.max(0, Number(svg.getAttribute("height")) - HEAD - FOOT + 8) };
    for (const [name, value] of Object.entries(box)) set(layers.brush, name, value);
  });
  svg.addEventListener("pointerup", (event) => {
    set(layers.brush, "width", 0);
    const [a, b] = [from ?? 0, at(event)].sort((one, other) => one - other);
    const isDrag = from !== null && b - a > 6;
    from = null;
    if (isDrag) how.onWindow?.({ from: state.place.back(a), to: state.place.back(b) });
    else {
      const seq = event.target.closest?.(".piece")?.dataset.seq;
      if (seq) how.onPick?.(Number(seq));
    }
  });
  svg.addEventListener("pointercancel", () => { from = null; set(layers.brush, "width", 0); });
}
