// The list of a run's events, which may be of any length.
//
// 1. There are only elements for the rows in view. They are moved and rewritten as the list is scrolled, never recreated.
// 2. Browsers cannot draw elements that are tens of millions of pixels high. Beyond `TALLEST` the scroll bar is proportional; keys
//    still move row by row.
// 3. The list stays where it was scrolled to. At its end it follows new events.
// 4. JSON is created when an event is opened.

import { announce, everyFrame, h, set, write } from "../dom.js";
import { number, several } from "../words.js";
import { since } from "../runwords.js";
import { KIND, main } from "./facts.js";
import { searcher } from "./search.js";
import { factPane } from "./factpane.js";

/** The height of a row in pixels; on a narrow screen a row has two lines. */
const ROW = 30;
const HIGH_ROW = 50;
const TALLEST = 6_000_000;
/** The most row elements: without its style sheet the list would be as high as its content. */
const MOST = 300;

/** @typedef {import("./eventlog.js").EventLog} EventLog */
/**
 * The list on the screen: `lines` are those that are listed, `rows` the elements in view, `chosen` the selected line or -1, `drawn` how
 * many lines there were at the last drawing, `row` the height of a row in pixels.
 * @typedef {{log: EventLog, toolOf: ToolOf, box: HTMLElement, inner: HTMLElement, pane: ReturnType<typeof factPane>,
 *   onChoose?: (seq: number) => void, rows: HTMLElement[], lines: number[], chosen: number, follows: boolean, drawn: number, row: number}} List
 */

/**
 * @param {EventLog} log
 * @param {{toolOf: ToolOf, onChoose?: (seq: number) => void, signal: AbortSignal}} how
 * @returns {{element: HTMLElement, changed: () => void, jump: (seq: number, isQuiet?: boolean) => boolean}}
 */
export function events(log, { toolOf, onChoose, signal }) {
  const inner = h("div", { class: "inner", role: "presentation" });
  const box = h("div", {
    class: "events", role: "listbox", tabindex: 0, "aria-label": "Events, in order. Use the arrow keys to select one and Enter to read its JSON.",
  }, inner);
  const pane = factPane();
  /** @type {List} */
  const state = { log, toolOf, box, inner, pane, onChoose, rows: [], lines: log.lines, chosen: -1, follows: true, drawn: 0, row: ROW };
  const draw = everyFrame(() => drawRows(state), signal);
  const search = searcher(log, (record) => `${KIND[record.type] ?? record.type} ${main(record, toolOf)}`, (lines) => {
    state.lines = lines ?? log.lines;
    const kept = state.chosen >= 0 ? state.lines.indexOf(state.chosen) : -1;
    if (kept >= 0) reveal(state, kept);
    else if (lines) box.scrollTop = 0;
    draw();
  }, signal);
  box.addEventListener("scroll", () => { followsNow(state); draw(); }, { passive: true });
  box.addEventListener("keydown", (event) => keyed(state, event, draw));
  inner.addEventListener("click", (event) => {
    /** @type {HTMLElement | null} */
    const row = event.target instanceof Element ? event.target.closest("[data-index]") : null;
    const index = Number(row?.dataset.index ?? -1);
    if (index >= 0) choose(state, index, draw);
  });
  const narrow = matchMedia("(max-width: 40rem)");
  const measure = () => {
    state.row = narrow.matches ? HIGH_ROW : ROW;
    draw();
  };
  narrow.addEventListener("change", measure, { signal });
  measure();
  new ResizeObserver(draw).observe(box);
  const jump = (/** @type {number} */ seq, isQuiet = false) => jumpTo(state, search, seq, draw, isQuiet);
  const element = h("div", { class: "eventpanel" }, search.element(jump), h("div", { class: "pair" }, box, pane.element));
  return { element, changed: () => { search.changed(); draw(); }, jump };
}

const heightOf = (/** @type {List} */ state) => Math.min(state.lines.length * state.row, TALLEST);

/** The first row in view, as a fraction (invariant 2). */
function firstRow(/** @type {List} */ state) {
  const { box, lines } = state;
  const total = lines.length * state.row;
  if (total <= TALLEST) return box.scrollTop / state.row;
  const way = TALLEST - box.clientHeight;
  return (Math.min(box.scrollTop / way, 1) * (total - box.clientHeight)) / state.row;
}

/** Scrolls a row into view. */
function reveal(/** @type {List} */ state, /** @type {number} */ index) {
  const { box, lines } = state;
  const first = firstRow(state);
  const seen = box.clientHeight / state.row;
  if (index >= first && index + 1 <= first + seen) return;
  const wanted = Math.max(0, index < first ? index : index + 1 - seen) * state.row;
  const total = lines.length * state.row;
  // The height may not have been set yet.
  state.inner.style.height = `${heightOf(state)}px`;
  box.scrollTop = total <= TALLEST ? wanted : (wanted / (total - box.clientHeight)) * (TALLEST - box.clientHeight);
}

function followsNow(/** @type {List} */ state) {
  const { box } = state;
  state.follows = box.scrollTop + box.clientHeight >= box.scrollHeight - state.row;
}

function drawRows(/** @type {List} */ state) {
  const { box, inner, lines, rows } = state;
  const height = `${heightOf(state)}px`;
  if (inner.style.height !== height) inner.style.height = height;
  if (state.follows && state.drawn !== lines.length) box.scrollTop = box.scrollHeight;
  state.drawn = lines.length;
  const first = Math.max(0, firstRow(state));
  const begin = Math.floor(first);
  const wanted = Math.max(0, Math.min(Math.ceil(box.clientHeight / state.row) + 2, lines.length - begin, MOST));
  while (rows.length < wanted) rows.push(inner.appendChild(emptyRow()));
  for (const row of rows.splice(wanted)) row.remove();
  // Rows are positioned within the visible part, wherever the scroll bar is.
  const offset = box.scrollTop - (first - begin) * state.row;
  rows.forEach((row, index) => {
    row.style.transform = `translateY(${offset + index * state.row}px)`;
    writeRow(state, row, begin + index);
  });
  const active = rows.find((row) => row.getAttribute("aria-selected") === "true");
  set(box, "aria-activedescendant", active?.id);
}

let rowIds = 0;
function emptyRow() {
  rowIds += 1;
  return h("div", { class: "event", role: "option", id: `event-${rowIds}` },
    h("span", { class: "seq number" }), h("span", { class: "when number" }), h("span", { class: "kind" }), h("bdi", { class: "main" }));
}

function writeRow(/** @type {List} */ { log, lines, chosen, toolOf }, /** @type {HTMLElement} */ row, /** @type {number} */ index) {
  const line = lines[index];
  const [seq, when, kind, text] = row.children;
  const place = line >> 1;
  const fact = log.facts[place];
  const isChosen = String(line === chosen);
  if (row.getAttribute("aria-selected") !== isChosen) set(row, "aria-selected", isChosen);
  set(row, "data-index", index);
  // A fact never changes, but what was streamed grows.
  if ((line & 1) === 0 && row.dataset.line === String(line)) return;
  set(row, "data-line", line);
  set(row, "aria-posinset", index + 1);
  set(row, "aria-setsize", lines.length);
  if (line & 1) {
    set(row, "data-type", "streamed");
    set(row, "data-seq", null);
    write(seq, "");
    write(when, "");
    write(kind, "streamed");
    write(text, streamedWords(log.streamed.get(place)));
    return;
  }
  set(row, "data-type", fact.type);
  set(row, "data-seq", fact.seq);
  write(seq, fact.seq);
  write(when, since(log.times[place]));
  write(kind, KIND[fact.type] ?? fact.type);
  write(text, main(fact, toolOf));
}

function streamedWords(/** @type {import("./eventlog.js").Streamed | undefined} */ sum) {
  if (!sum) return "";
  /** @type {[number, string][]} */
  const named = [[sum.text, "of text"], [sum.thinking, "of thinking"], [sum.tool_input, "of arguments"], [sum.tool_output, "of tool output"]];
  const parts = named.filter(([count]) => count).map(([count, what]) => `${several(count, "character")} ${what}`);
  return `${parts.join(", ")}${sum.lost ? "; some of it was lost in a crash" : ""}`;
}

function keyed(/** @type {List} */ state, /** @type {KeyboardEvent} */ event, /** @type {() => void} */ draw) {
  const { lines, chosen } = state;
  if (event.ctrlKey || event.metaKey || event.altKey || !lines.length) return;
  const at = chosen < 0 ? -1 : lines.indexOf(chosen);
  const page = Math.max(1, Math.floor(state.box.clientHeight / state.row) - 1);
  /** @type {Record<string, number>} */
  const keys = {
    ArrowDown: at + 1, ArrowUp: at < 0 ? lines.length - 1 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: lines.length - 1,
    Enter: at, " ": at,
  };
  const wanted = keys[event.key];
  if (wanted === undefined) return;
  event.preventDefault();
  choose(state, Math.min(Math.max(wanted, 0), lines.length - 1), draw);
  if (event.key === "Enter") state.pane.focus();
}

/** Selects a row and shows its JSON. */
function choose(/** @type {List} */ state, /** @type {number} */ index, /** @type {() => void} */ draw) {
  const { log, lines, toolOf } = state;
  state.chosen = lines[index];
  state.follows = false;
  const place = state.chosen >> 1;
  const fact = log.facts[place];
  if (state.chosen & 1) state.pane.showStreamed(streamedWords(log.streamed.get(place)), fact);
  else {
    state.pane.show(fact, log.times[place], toolOf);
    state.onChoose?.(fact.seq);
  }
  reveal(state, index);
  draw();
}

/**
 * @param {List} state
 * @param {{clear: () => void}} search
 * @param {number} seq
 * @param {() => void} draw
 * @param {boolean} isQuiet
 */
function jumpTo(state, search, seq, draw, isQuiet) {
  const place = state.log.placeOf(seq);
  if (place < 0) {
    if (isQuiet) return false;
    state.pane.missing(number(seq));
    announce(`There is no event ${number(seq)} in this run.`);
    return false;
  }
  let index = state.lines.indexOf(place * 2);
  if (index < 0) {
    search.clear();
    state.lines = state.log.lines;
    index = state.lines.indexOf(place * 2);
  }
  choose(state, index, draw);
  return true;
}
