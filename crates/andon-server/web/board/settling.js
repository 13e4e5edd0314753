// Shows runs that were told to stop until all of them have settled.
//
// 1. A run counts as settled when the server says so, and not before.
// 2. What is shown is the server's account: how long each took, what it leaked, how it ended.
// 3. A run that is no longer on the board, because the feed was interrupted, is looked up by its id.

import { get, part, userWord } from "../api.js";
import { announce, fill, h, write } from "../dom.js";
import { doing, number, OUTCOME, PHASE, several, span, spanUs } from "../words.js";

/** How many unsettled runs are named, and how many receipts are listed. */
const NAMED = 6;
const LISTED = 200;
/** How long to wait for the board to report each end once all are known to have settled, in milliseconds. */
const PATIENCE = 2000;

/**
 * @typedef {Pick<Row, "run_id" | "state"> & Partial<Row>} Known what is known of a run; of one that was never on the board, less
 * @typedef {Map<string, Known | null>} Runs
 */

/**
 * Shows these runs settle.
 * @param {Roster} roster
 * @param {string[]} ids
 * @param {{isAll: () => boolean, said: (count: number, time: string) => string, signal: AbortSignal, onEnd?: () => void}} how
 *   `isAll` returns whether the list of runs is final; `said` returns the words for when all have settled
 * @returns {{element: HTMLElement, open: () => string[], told: (runs: import("./each.js").Stopped[] | null) => void}} `told` takes the server's
 *   response: these are the runs and no others
 */
export function settling(roster, ids, how) {
  /** @type {Runs} */
  const runs = new Map(ids.map((id) => [id, roster.entries.get(id)?.row ?? null]));
  const since = roster.now();
  const bar = h("progress", { class: "settling-bar", max: runs.size, value: 0, "aria-label": "Settled" });
  const count = h("p", { class: "count number", "data-settled": 0 });
  const times = h("p", { class: "small soft number" });
  const still = h("ul", { class: "still" });
  const leaks = h("div", { class: "leaks" });
  const receipts = h("details", { class: "receipts", hidden: true });
  const element = h("div", { class: "settling", "data-settling": true }, count, bar, times, leaks, still, receipts);
  let isOver = false;
  let patience = Infinity;

  const look = () => {
    if (isOver) return;
    for (const id of runs.keys()) runs.set(id, newer(runs.get(id) ?? null, roster.entries.get(id)?.row));
    const all = [...runs.values()].filter((row) => row !== null);
    const over = all.filter(({ state }) => state === "settled");
    bar.max = Math.max(1, runs.size);
    bar.value = over.length;
    count.dataset.settled = `${over.length}`;
    write(times, took(over));
    const isTold = over.every((row) => row.settled_at || !roster.entries.has(row.run_id)) || performance.now() > patience;
    if (how.isAll() && over.length === runs.size && isTold) return end(over);
    write(count, `${number(over.length)} of ${several(runs.size, "run")} settled`);
    fill(still, stillOpen(all.filter(({ state }) => state !== "settled"), roster));
    fill(leaks, leaked(over));
  };
  const end = (/** @type {Known[]} */ over) => {
    isOver = true;
    const said = how.said(runs.size, inAll(over, since));
    write(count, said);
    announce(said);
    fill(still);
    fill(leaks, ended(over), leaked(over));
    receipts.hidden = over.length === 0;
    fill(receipts, listed(over));
    element.dataset.settling = "over";
    how.onEnd?.();
  };
  roster.watch((changes) => {
    if (changes.has("rows") || changes.has("ready") || changes.has("second")) look();
    if (changes.has("ready")) askFor(runs, roster, how.signal).then(look);
  }, how.signal);
  look();
  const told = (/** @type {import("./each.js").Stopped[] | null} */ answers) => {
    if (answers) tell(runs, answers);
    // The response may arrive before the board has reported how each run ended.
    patience = performance.now() + PATIENCE;
    setTimeout(look, PATIENCE + 1);
    look();
    askFor(runs, roster, how.signal).then(look);
  };
  return { element, told, open: () => [...runs].filter(([, row]) => row?.state !== "settled").map(([id]) => id) };
}

/** Takes the list of runs from the server's response. */
function tell(/** @type {Runs} */ runs, /** @type {import("./each.js").Stopped[]} */ answers) {
  const before = new Map(runs);
  runs.clear();
  for (const { run_id, state, outcome, leaked } of answers) {
    const row = before.get(run_id);
    runs.set(run_id, state === "settled" && (row?.state !== "settled" || row.isUnseen) ? { ...row, run_id, state, outcome, leaked: leaked?.length, isUnseen: false } : row ?? null);
  }
}

/** Says that all have settled. */
export function allSettled(/** @type {number} */ count, /** @type {string} */ time) {
  if (count === 0) return "There was nothing to stop.";
  return count === 1 ? `The run settled in ${time}.` : `All ${number(count)} runs settled in ${time}.`;
}

/**
 * A settled run stays settled; the board's report of the end has the most detail.
 * @type {(before: Known | null, now: Known | undefined) => Known | null}
 */
const newer = (before, now) => (before?.state === "settled" && !now?.settled_at ? before : now ?? before);

/** Looks up runs that are no longer on the board (invariant 3), a few at a time. */
async function askFor(/** @type {Runs} */ runs, /** @type {Roster} */ roster, /** @type {AbortSignal} */ signal) {
  const isKnown = (/** @type {string} */ id, /** @type {Known | null} */ row) => roster.entries.has(id) || (row?.state === "settled" && !row.isUnseen);
  const left = [...runs].filter(([id, row]) => !isKnown(id, row)).map(([id]) => id);
  const work = async () => {
    for (let id = left.shift(); id !== undefined && !signal.aborted; id = left.shift()) {
      const found = await get(`/v1/runs/${part(id)}`, { signal }).catch(() => null);
      if (found && runs.has(id)) runs.set(id, { ...runs.get(id), ...found, isUnseen: false });
    }
  };
  await Promise.all([work(), work(), work()]);
}

/** How long it took in all by the server's clock: from the first request of this stop to the last end. */
function inAll(/** @type {Known[]} */ over, /** @type {number} */ since) {
  const asked = (/** @type {Known} */ { cancel }) => (cancel ? Date.parse(cancel.requested_at) : NaN);
  // Runs that someone else had already asked to stop took longer, so they do not count. Clocks differ a little.
  const own = over.filter((row) => asked(row) > since - 1000);
  const first = own.reduce((earliest, row) => Math.min(earliest, asked(row)), Infinity);
  const last = over.reduce((latest, row) => (row.settled_at ? Math.max(latest, Date.parse(row.settled_at)) : latest), 0);
  const slowest = own.reduce((longest, { took_us = 0 }) => Math.max(longest, took_us / 1000), 0);
  const all = Math.max(last - Math.min(first, last), slowest);
  return all > 0 ? span(all) : "less than 1 ms";
}

/** How long it took: the fastest, the median, the slowest. */
function took(/** @type {Known[]} */ over) {
  // For runs that have left the board, only the receipt has it.
  const times = over.map(({ took_us }) => took_us).filter((us) => us !== undefined && us !== null).sort((a, b) => a - b);
  if (!times.length) return "";
  if (times.length === 1) return `From request to settled: ${spanUs(times[0])}.`;
  const median = times[Math.floor((times.length - 1) / 2)];
  const which = times.length < over.length ? ` (${number(times.length)} of ${several(over.length, "run")})` : "";
  return `From request to settled${which}: fastest ${spanUs(times[0])}, median ${spanUs(median)}, slowest ${spanUs(times.at(-1))}.`;
}

function stillOpen(/** @type {Known[]} */ open, /** @type {Roster} */ roster) {
  const since = (/** @type {Known} */ row) => Date.parse(row.cancel?.requested_at ?? row.accepted_at ?? "");
  const longest = open.sort((a, b) => since(a) - since(b));
  const items = longest.slice(0, NAMED).map((row) => h("li", null,
    h("bdi", { dir: "auto", class: "clip" }, row.title || row.run_id), " ",
    h("span", { class: "soft small" }, at(row), row.cancel ? `, requested ${seconds(roster.now() - since(row))} ago` : "")));
  if (longest.length > NAMED) items.push(h("li", { class: "soft small" }, `and ${several(longest.length - NAMED, "other")}`));
  return items;
}

const seconds = (/** @type {number} */ ms) => `${Math.max(0, Math.floor(ms / 1000))} s`;

/** What a stopping run is still doing. */
function at(/** @type {Known} */ row) {
  if (row.stalled || row.state !== "cancelling") return doing(row);
  return row.tools?.length ? `tools: ${row.tools.join(", ")}` : PHASE[row.phase ?? ""] ?? doing(row);
}

function leaked(/** @type {Known[]} */ over) {
  const leaky = over.filter((row) => row.leaked);
  return leaky.map((row) => h("p", { class: "problem" }, `Leaked: ${several(row.leaked ?? 0, "call")} of `,
    h("a", { href: receipt(row), dir: "auto" }, row.title || row.run_id), " may still be running."));
}

/** How they ended: some may have completed before the stop. */
function ended(/** @type {Known[]} */ over) {
  /** @type {Record<string, number>} */
  const kinds = {};
  for (const { outcome: { kind } = { kind: "settled" } } of over) kinds[kind] = (kinds[kind] ?? 0) + 1;
  const words = Object.entries(kinds).map(([kind, count]) => `${number(count)} ${OUTCOME[kind] ?? kind}`);
  return words.length ? h("p", { class: "small" }, `${words.join(", ")}.`) : null;
}

const receipt = (/** @type {Known} */ row) => `#/run/${part(row.run_id)}/receipt`;

function listed(/** @type {Known[]} */ over) {
  const slowest = [...over].sort((a, b) => (b.took_us ?? 0) - (a.took_us ?? 0));
  const time = (/** @type {Known} */ { took_us }) => (took_us === undefined ? "" : spanUs(took_us));
  const items = slowest.slice(0, LISTED).map((row) => h("li", null,
    h("a", { href: receipt(row) }, h("bdi", { dir: "auto", class: "clip" }, row.title || row.run_id)), " ",
    h("span", { class: "soft small number" }, time(row), " ", row.user && userWord(row.user, row.tenant))));
  if (over.length > LISTED) items.push(h("li", null, h("a", { href: "#/runs?state=settled" }, "All others")));
  return [h("summary", null, `${several(over.length, "receipt")}, slowest first`), h("ul", null, items)];
}
