// The timeline as a table.
//
// 1. It is created when it is opened, not before.
// 2. It shows a page of rows at a time.

import { fill, h, write } from "../dom.js";
import { number, several, span } from "../words.js";
import { HOW, since } from "../runwords.js";

const PAGE = 200;

/** @typedef {import("./trace.js").Trace} Trace */

/** @param {Trace} trace */
export function tableOf(trace) {
  const summary = h("summary", null, "As a table");
  const place = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The timeline as a table" });
  const element = h("details", { class: "astable" }, summary, place);
  let shown = PAGE;
  let known = "";
  const show = () => {
    if (!element.open) return;
    const now = `${trace.bars} ${trace.marks.length} ${shown} ${trace.isSettled}`;
    if (now === known) return;
    known = now;
    fill(place, table(trace, shown), more(trace, shown, () => { shown += PAGE; show(); }));
  };
  element.addEventListener("toggle", show);
  return {
    element,
    changed: () => {
      write(summary, `As a table (${several(trace.bars + trace.marks.length, "row")})`);
      show();
    },
  };
}

function table(/** @type {Trace} */ trace, /** @type {number} */ shown) {
  const bars = Object.values(trace.groups).flat(2).sort((a, b) => a.from - b.from).slice(0, shown);
  const rows = bars.map((bar) => row(since(bar.from), bar.group === "waits" ? "wait" : bar.group === "model" ? "model call" : "tool call",
    bar.name, bar.to === null ? "in progress" : span(bar.to - bar.from), HOW[bar.how] ?? bar.how));
  const marks = trace.marks.map((mark) => row(since(mark.at), "mark", mark.name, "", mark.detail));
  return h("table", { class: "lines" }, h("caption", { class: "unseen" }, "What the run did, with times since it started"),
    h("thead", null, h("tr", null, ["Time", "Type", "Name", "Duration", "Result"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, rows, marks));
}

const row = (/** @type {string[]} */ ...cells) => h("tr", null, cells.map((cell) => h("td", null, cell)));

function more(/** @type {Trace} */ trace, /** @type {number} */ shown, /** @type {() => void} */ onclick) {
  return trace.bars > shown && h("button", { type: "button", onclick }, `Show more (${number(trace.bars - shown)} left)`);
}
