// What each model call used: delivered and billed, every figure with its source.
//
// 1. Unknown is never shown as 0.
// 2. The source of a figure is written out, not only in a tooltip, because paper has no tooltips.

import { h } from "../dom.js";
import { PROVENANCE, figure, figureInFull, money, moneyInFull, number, spanUs, timeOfDay } from "../words.js";
import { PENDING } from "../runwords.js";

/** @type {[keyof Api.Usage, string][]} */
const COLUMNS = [["input", "Input"], ["cache_read", "Cache read"], ["cache_write", "Cache write"], ["output", "Output"], ["reasoning", "Thinking"]];

/**
 * A model call of a receipt, or of a correction, which has figures only.
 * @typedef {Pick<Api.ModelAccount, "call" | "model" | "usage"> & Partial<Api.ModelAccount>} Call
 */

/** @typedef {string | (string | HTMLElement)[]} Note */

/**
 * The table of a receipt's model calls.
 * @param {{model_calls: Call[], usage: Api.Used | null, cost?: Api.Cost, outcome?: Api.Outcome | null}} receipt
 */
export function usageTable(receipt) {
  const { model_calls: calls, usage, cost } = receipt;
  const hasCost = Boolean(cost) || calls.some((call) => call.cost);
  const head = ["Call", "", ...COLUMNS.map(([, name]) => name), ...(hasCost ? ["Cost"] : []), "Source"];
  const bodies = calls.map((call) => group(`${call.call}`, h("bdi", null, call.model), call.usage, call.cost, hasCost, notesOf(call)));
  const none = receipt.outcome === null ? "no model call has ended yet" : "no model was called";
  const total = usage && group("Total", "", usage, cost, hasCost, calls.length ? [] : [none]);
  total?.classList.add("total");
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Tokens per model call" },
    h("table", { class: "lines usage" }, h("caption", { class: "unseen" }, "Tokens, delivered and billed"),
      h("thead", null, h("tr", null, head.map((name, at) => headCell(name, at > 1 && at < head.length - 1)))),
      bodies, total));
}

/** A column header; that of the second column is only for screen readers. */
function headCell(/** @type {string} */ name, /** @type {boolean} */ isFigure) {
  return h("th", { scope: "col", class: isFigure ? "right" : null }, name || h("span", { class: "unseen" }, "Delivered or billed"));
}

/** @returns {Note[]} */
function notesOf(/** @type {Call} */ { answered_by: by, request_id: id, first_piece_us: first, took_us: took, pending }) {
  // A correction has figures only.
  if (first === undefined) return [];
  return [
    // The provider chooses these words.
    by ? ["answered by ", h("bdi", null, by)] : "",
    id ? ["request ", h("bdi", null, id)] : "",
    first === null ? "no token arrived" : `first token after ${spanUs(first)}`,
    took === null ? "duration unknown" : `took ${spanUs(took)}`,
    pending ? `better figures expected by ${timeOfDay(pending.until)}: ${PENDING[pending.what] ?? pending.what}` : "",
  ].filter(Boolean);
}

/**
 * A call in two rows: what was delivered, and what was billed.
 * @param {string} name
 * @param {HTMLElement | ""} more
 * @param {Api.Used} used
 * @param {Api.Cost | undefined} cost
 * @param {boolean} hasCost
 * @param {Note[]} notes
 */
function group(name, more, { delivered, billed }, cost, hasCost, notes) {
  const row = (/** @type {string} */ what, /** @type {Api.Usage} */ used, /** @type {boolean} */ isFirst) => h("tr", { "data-used": what },
    isFirst && h("th", { scope: "rowgroup", class: "number", rowspan: notes.length ? 3 : 2 }, name, more ? [" ", more] : null),
    h("th", { scope: "row" }, what),
    COLUMNS.map(([key]) => cell(used[key], key === "input" ? cachedToo(used) : "")),
    hasCost && h("td", { class: "right number", title: what === "billed" ? moneyInFull(cost) : null }, what === "billed" ? money(cost) : ""),
    h("td", { class: "known small" }, known(used)));
  const notesRow = notes.length ? h("tr", { class: "notes small soft" }, h("td", { colspan: 7 + (hasCost ? 1 : 0) }, notes.map((note, at) => (at ? ["; ", note] : note)))) : null;
  return h("tbody", null, row("delivered", delivered, true), row("billed", billed, false), notesRow);
}

/** What the input may include, in words. */
function cachedToo(/** @type {Api.Usage} */ { unsplit }) {
  return unsplit.high === 0 ? "" : `; of it, ${figure(unsplit)} may have been read from or written to a cache: the provider did not say`;
}

function cell(/** @type {Api.Figure} */ it, more = "") {
  const range = it.value !== null && it.low !== null && it.high !== null && it.low !== it.high ? `${number(it.low)}–${number(it.high)}` : "";
  return h("td", { class: "right number", title: `${figureInFull(it)}${more}`, "data-provenance": it.provenance },
    figure(it), range ? h("span", { class: "range" }, range) : null);
}

/** The sources of the figures of a row; figures with the same source are grouped. */
function known(/** @type {Api.Usage} */ used) {
  /** @type {Map<string, string[]>} */
  const ways = new Map();
  for (const [key, name] of COLUMNS) {
    const way = used[key]?.provenance ?? "unknown";
    ways.set(way, [...(ways.get(way) ?? []), name.toLowerCase()]);
  }
  if (ways.size === 1) return PROVENANCE[[...ways.keys()][0]] ?? [...ways.keys()][0];
  return [...ways].map(([way, names]) => `${names.join(", ")}: ${PROVENANCE[way] ?? way}`).join("; ");
}
