// The parts of a receipt: requests, calls, leaks, addenda.

import { h } from "../dom.js";
import { longText } from "../long.js";
import { REASON, VERDICT, spanUs } from "../words.js";
import { COMPENSATION, FORCE_WORD, REFUSED, addendum, exactTime } from "../runwords.js";
import { usageTable } from "./usage.js";

function table(/** @type {string} */ caption, /** @type {string[]} */ columns, /** @type {HTMLElement[]} */ rows) {
  return h("div", { class: "scroll" }, h("table", { class: "lines" }, h("caption", { class: "unseen" }, caption),
    h("thead", null, h("tr", null, columns.map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, rows)));
}

/** Every request that changed something. */
export function requestsOf(/** @type {Api.Receipt} */ { requests }) {
  const rows = requests.map(({ requested_at: at, by, reason, force, note, grace_ms: grace }) => h("tr", null,
    h("td", { class: "number" }, h("time", { datetime: at.wall }, exactTime(at.wall))), h("td", null, FORCE_WORD[force] ?? force),
    h("td", null, by ? h("bdi", null, by) : "–"), h("td", null, REASON[reason] ?? reason),
    h("td", null, note ? h("bdi", null, note) : "", grace === undefined ? "" : ` (grace ${grace} ms)`)));
  return table("Requests to stop, in order", ["Time", "Force", "By", "Reason", "Note"], rows);
}

/** What became of each tool call. */
export function callsOf(/** @type {Api.Receipt} */ { calls, outcome }) {
  if (!calls.length) return h("p", null, outcome ? "No tools were called." : "No tool call has ended yet.");
  const rows = calls.map(({ call, tool, verdict, refused, took_us: took, effect_id: effect, notes = [], compensation }) => {
    const more = [REFUSED[refused ?? ""] ?? refused, COMPENSATION[compensation ?? ""] ?? compensation, ...notes].filter(Boolean);
    return h("tr", { "data-call": call, "data-verdict": verdict },
      h("th", { scope: "row" }, h("bdi", null, tool), h("code", { class: "id" }, call)),
      h("td", { class: "verdictcell" }, VERDICT[verdict] ?? verdict),
      h("td", { class: "number" }, took === undefined || took === null ? "–" : spanUs(took)),
      h("td", null, more.map((note) => h("p", null, h("bdi", null, note))),
        effect ? h("p", { class: "small" }, "effect ID ", h("code", null, effect)) : null));
  });
  return table("What became of each tool call", ["Tool", "Verdict", "Duration", "Notes"], rows);
}

/** What may still be running after the run. */
export function leaksOf(/** @type {Api.Receipt} */ { leaked, outcome }) {
  if (!leaked.length) return h("p", { "data-leaks": 0 }, outcome ? "None: nothing was left running." : "None so far.");
  return h("ul", { class: "leaks", "data-leaks": leaked.length }, leaked.map((name) => h("li", null, h("bdi", null, name))));
}

/** What became known after the end. */
export function addendaOf(/** @type {Api.Receipt} */ { addenda, calls, outcome }) {
  if (!addenda.length) return h("p", null, outcome ? "None." : "None yet.");
  const toolOf = (/** @type {string} */ call) => calls.find((it) => it.call === call)?.tool ?? call;
  return h("ol", { class: "addenda" }, addenda.map((it) => {
    const [words, text] = addendum(it, toolOf);
    return h("li", { value: it.number }, h("p", null, h("time", { class: "number", datetime: it.at.wall }, exactTime(it.at.wall)), ` ${words}`),
      text ? longText(text, { short: 1200 }) : null,
      it.type === "usage_corrected" ? usageTable({ model_calls: [{ call: it.call, model: "", usage: it.used }], usage: null }) : null);
  }));
}
