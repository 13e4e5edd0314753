// The history: all runs on record, newest first, a page at a time.
//
// 1. The filter is in the address. The server does the filtering, so that older pages are searched too.
// 2. A response to an outdated request is never shown.

import { get, part, troubleOf, userWord } from "../api.js";
import { announce, fill, h } from "../dom.js";
import { folded } from "./folded.js";
import { spending } from "./spent.js";
import { dayAndTime, doing, failure, several, shownState, span, stalledWords } from "../words.js";

const PAGE = 50;
/** How long after the last key the search starts, in milliseconds. */
const TYPING = 250;
const NAMES = ["text", "state", "app", "user", "session", "from", "to"];
const STATES = {
  "": "All states", queued: "Queued", running: "Running", waiting: "Needs approval", cancelling: "Stopping", settled: "Settled",
};
const HEADS = ["State", "Prompt", "Agent", "User", "Session", "Accepted", "Duration", "Tokens in / out", "Cost", "Receipt"];

/**
 * The list on the screen. `turn` counts the requests for a first page; `next` is where the next page starts.
 * @typedef {{asked: Record<string, string>, signal: AbortSignal, turn: number, count: number, next: string | null, body: HTMLElement,
 *   said: HTMLElement, older: HTMLButtonElement, spent: ReturnType<typeof spending>}} List
 */

/** @type {ViewModule["default"]} */
export default async function view(place, { query }, signal) {
  const asked = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));
  const body = h("tbody");
  const said = h("p", { class: "empty", role: "status" });
  const older = h("button", { type: "button", hidden: true, onclick: () => page(list) }, "Show more");
  const apps = await names(signal);
  if (signal.aborted) return;
  const heads = HEADS.map((name) => h("th", { scope: "col", "data-column": name.toLowerCase() }, name));
  const table = h("table", { class: "ran card" }, h("thead", null, h("tr", null, heads)), body);
  const spent = spending(() => { table.dataset.cost = "yes"; }, signal);
  /** @type {List} */
  const list = { asked, signal, turn: 0, count: 0, next: null, body, said, older, spent };
  fill(place, h("h1", null, "History"), fields(list, apps), table, said, older);
  await begin(list);
}

/** The agents to choose from. */
async function names(/** @type {AbortSignal} */ signal) {
  try {
    const { apps } = await get("/v1/apps", { signal });
    return apps.map(({ app }) => app);
  } catch {
    return [];
  }
}

/* The filter. */

function fields(/** @type {List} */ list, /** @type {string[]} */ apps) {
  const { asked } = list;
  const ask = (/** @type {string} */ name, /** @type {string} */ value) => {
    if (asked[name] === value.trim()) return;
    asked[name] = value.trim();
    const query = new URLSearchParams(Object.entries(asked).filter(([, text]) => text));
    history.replaceState(null, "", `#/runs${query.size ? `?${query}` : ""}`);
    more.count(narrowed(asked));
    begin(list);
  };
  const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {Record<string, string>} */ how) => {
    const input = h("input", { "aria-label": label, "data-filter": name, ...how });
    input.value = asked[name];
    input.addEventListener("change", () => ask(name, input.value));
    return input;
  };
  const text = (/** @type {string} */ name, /** @type {string} */ label) => field(name, label, { type: "search", placeholder: label });
  const day = (/** @type {string} */ name, /** @type {string} */ label) => h("label", { class: "day" }, `${label} `, field(name, label, { type: "date" }));
  const select = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[][]} */ options) => {
    const element = h("select", { "aria-label": label, "data-filter": name }, options.map(([value, said]) => h("option", { value }, said)));
    element.value = asked[name];
    element.addEventListener("change", () => ask(name, element.value));
    return element;
  };
  const agents = [...new Set([...apps, asked.app].filter(Boolean))].map((app) => [app, app]);
  const where = "Search by prompt, session, user or run ID";
  const search = field("text", where, { type: "search", placeholder: "Search runs", title: where });
  search.addEventListener("input", later(() => ask("text", search.value), list.signal));
  const rest = h("div", { class: "fields foldable" },
    select("state", "State", Object.entries(STATES)), select("app", "Agent", [["", "All agents"], ...agents]),
    text("user", "User"), text("session", "Session"), day("from", "From"), day("to", "To"));
  const more = folded("Filter", rest);
  more.count(narrowed(asked));
  const refresh = h("button", { type: "button", class: "plain", onclick: () => begin(list) }, "Refresh");
  return h("div", { class: "filter", role: "search", "aria-label": "Filter runs" },
    h("div", { class: "fields" }, search, more.button, refresh), rest);
}

/** How many of the foldable fields are set. */
const narrowed = (/** @type {Record<string, string>} */ { text, ...rest }) => Object.values(rest).filter(Boolean).length;

/** Does it when nobody has typed for a moment. */
function later(/** @type {() => void} */ work, /** @type {AbortSignal} */ signal) {
  let timer = 0;
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, TYPING);
  };
}

/** The start of a day in the reader's time zone, or of a day some days later; undefined if it is not a date. */
function beginOf(/** @type {string} */ day, later = 0) {
  const [year, month, date] = day.split("-").map(Number);
  const time = new Date(year, month - 1, date + later);
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}

/* The list. */

/** Loads the first page. */
async function begin(/** @type {List} */ list) {
  list.turn += 1;
  list.next = null;
  list.count = 0;
  await page(list);
}

async function page(/** @type {List} */ list) {
  const { turn, signal, next, asked: { from, to, ...asked } } = list;
  list.older.disabled = true;
  fill(list.said, "Loading…");
  let answer;
  try {
    const when = { since: from && beginOf(from), until: to && beginOf(to, 1) };
    answer = await get("/v1/runs", { query: { ...asked, ...when, before: next, limit: PAGE }, signal });
  } catch (error) {
    if (signal.aborted || turn !== list.turn) return;
    list.older.disabled = false;
    fill(list.said, h("span", { class: "problem" }, troubleOf(error).message));
    return;
  }
  // Invariant 2.
  if (signal.aborted || turn !== list.turn) return;
  if (!next) fill(list.body);
  list.body.append(...answer.runs.map((run) => line(list, run)));
  list.count += answer.runs.length;
  list.next = answer.next ?? null;
  list.older.hidden = !answer.next;
  list.older.disabled = false;
  const isNarrow = Object.values(list.asked).some(Boolean);
  const none = isNarrow ? "No runs match." : "No runs yet.";
  fill(list.said, list.count === 0 ? none : answer.next ? "" : `${several(list.count, "run")} in total.`);
  announce(`${several(list.count, "run")} shown.`);
}

function line(/** @type {List} */ list, /** @type {Api.Run} */ run) {
  const to = `#/run/${part(run.run_id)}`;
  const others = (/** @type {string} */ name, /** @type {string} */ text, shown = text) => h("td", { title: text, "data-column": name }, h("bdi", { dir: "auto" }, shown));
  const end = run.settled_at ?? run.ended_at;
  const ended = end ? span(Date.parse(end) - Date.parse(run.accepted_at)) : "in progress";
  const state = shownState(run);
  const title = state === "stalled" ? stalledWords(run.stalled, run.state === "cancelling") : failure(run.outcome);
  const how = { class: "state", "data-state": state, "data-outcome": run.outcome?.kind, title };
  const figures = (/** @type {string} */ name) => h("td", { class: "number", "data-column": name }, "…");
  const cells = { tokens: figures("tokens in / out"), cost: figures("cost") };
  const row = h("tr", { "data-run": run.run_id, "data-state": state },
    h("td", null, h("span", how, doing(run))),
    h("td", { class: "asked" }, h("a", { href: to, dir: "auto", title: run.title }, run.title || "(no prompt)")),
    others("agent", run.app), others("user", run.user, userWord(run.user, run.tenant)), others("session", run.session),
    h("td", { class: "number", title: run.accepted_at, "data-column": "accepted" }, dayAndTime(run.accepted_at)),
    h("td", { class: "number", "data-column": "duration" }, ended), cells.tokens, cells.cost,
    h("td", null, run.outcome && h("a", { href: `${to}/receipt`, "aria-label": `Receipt for ${run.title}` }, "Receipt")));
  list.spent(row, run, cells);
  return row;
}
