// Searches events: by type, text or number.
//
// 1. However many events there are, they are searched in slices of a few milliseconds.
// 2. Events that arrive during a search are searched too.

import { everyFrame, fill, h, write } from "../dom.js";
import { number, several } from "../words.js";
import { KIND } from "./facts.js";

const SLICE = 6;

/**
 * @typedef {import("./eventlog.js").EventLog} EventLog
 * @typedef {{text: string, type: string}} Wanted
 * @typedef {{log: EventLog, textOf: (record: Api.Fact) => string, wanted: Wanted | null, lines: number[], next: number}} Search
 * @typedef {(seq: number) => boolean} Jump
 */

/**
 * @param {EventLog} log
 * @param {(record: Api.Fact) => string} textOf the text of a fact that is searched
 * @param {(lines: number[] | null) => void} onFound called with the lines found so far; null if there is no search
 * @param {AbortSignal} signal
 */
export function searcher(log, textOf, onFound, signal) {
  const type = h("select", { "aria-label": "Event type" }, h("option", { value: "" }, "All types"));
  const words = h("input", { type: "search", placeholder: "Search…", "aria-label": "Search events" });
  const said = h("span", { class: "small soft", role: "status" });
  /** @type {Search} */
  const state = { log, textOf, wanted: null, lines: [], next: 0 };
  const tell = () => {
    const found = `${several(state.lines.length, "event")} found${state.next < log.facts.length ? "…" : ""}`;
    write(said, state.wanted ? found : several(log.facts.length, "event"));
  };
  const look = everyFrame(() => {
    if (!state.wanted) return;
    lookOn(state, state.wanted);
    tell();
    onFound(state.lines);
    if (state.next < log.facts.length) look();
  }, signal);
  const begin = () => {
    const text = words.value.trim().toLowerCase();
    state.wanted = text || type.value ? { text, type: type.value } : null;
    Object.assign(state, { lines: [], next: 0 });
    if (state.wanted) look();
    else onFound(null);
    tell();
  };
  type.addEventListener("change", begin);
  words.addEventListener("input", begin);
  return {
    element: (/** @type {Jump} */ jump) => h("div", { class: "find" }, type, words, numberForm(jump), said),
    clear() {
      words.value = "";
      type.value = "";
      begin();
    },
    changed() {
      offerTypes(type, log);
      tell();
      if (state.wanted) look();
    },
  };
}

function lookOn(/** @type {Search} */ state, /** @type {Wanted} */ wanted) {
  const { log, textOf } = state;
  const end = performance.now() + SLICE;
  while (state.next < log.facts.length) {
    const fact = log.facts[state.next];
    const fits = (!wanted.type || fact.type === wanted.type) && (!wanted.text || textOf(fact).toLowerCase().includes(wanted.text));
    if (fits) state.lines.push(state.next * 2);
    state.next += 1;
    if (state.next % 256 === 0 && performance.now() > end) return;
  }
}

/** Lists the types that occur, with their counts. */
function offerTypes(/** @type {HTMLSelectElement} */ select, /** @type {EventLog} */ log) {
  const known = [...select.options].slice(1);
  for (const [name, count] of log.types) {
    const text = `${KIND[name] ?? name} (${number(count)})`;
    const option = known.find(({ value }) => value === name);
    if (option) write(option, text);
    else select.append(h("option", { value: name }, text));
  }
}

function numberForm(/** @type {Jump} */ jump) {
  const input = h("input", { type: "number", min: 1, step: 1, inputmode: "numeric", placeholder: "No.", "aria-label": "Event number" });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const found = input.value && jump(Number(input.value));
    input.setCustomValidity(found || !input.value ? "" : "There is no event with this number.");
    input.reportValidity();
  };
  return fill(h("form", { class: "goto", onsubmit: submit }), input, h("button", null, "Go"));
}
