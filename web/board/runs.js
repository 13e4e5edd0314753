// What ran: all runs that are on record, the newest first, a page at a time.
//
// 1. What is asked for stands in the address, and is asked of the server: nothing is left out that is only further back.
// 2. An answer to an older question is never shown.

import { get, part } from "../api.js";
import { announce, fill, h } from "../dom.js";
import { dayAndTime, doing, number, several, span } from "../words.js";

const PAGE = 50;
const NAMES = ["app", "user", "session", "state"];
const STATES = {
  "": "Every state", queued: "Queued", running: "Running", waiting: "Waits for a yes", cancelling: "Stopping", settled: "Settled",
};

export default async function view(place, { query }, signal) {
  const asked = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));
  const list = { asked, signal, turn: 0, count: 0, next: null };
  list.body = h("tbody");
  list.said = h("p", { class: "empty", role: "status" });
  list.older = h("button", { type: "button", hidden: true, onclick: () => page(list) }, "Older");
  const heads = ["State", "What was asked", "Agent", "User", "Session", "Accepted", "Time", "Receipt"];
  const apps = await names(signal);
  if (signal.aborted) return;
  fill(place, h("h1", null, "What ran"), fields(list, apps),
    h("table", { class: "ran card" },
      h("thead", null, h("tr", null, heads.map((name) => h("th", { scope: "col" }, name)))), list.body),
    list.said, list.older);
  await begin(list);
}

/** The agents to choose from. */
async function names(signal) {
  try {
    const { apps } = await get("/v1/apps", { signal });
    return apps.map(({ app }) => app);
  } catch {
    return [];
  }
}

function fields(list, apps) {
  const { asked } = list;
  const ask = (name, value) => {
    asked[name] = value.trim();
    const query = new URLSearchParams(Object.entries(asked).filter(([, text]) => text));
    history.replaceState(null, "", `#/runs${query.size ? `?${query}` : ""}`);
    begin(list);
  };
  const text = (name, label) => {
    const input = h("input", { type: "search", placeholder: label, "aria-label": label, "data-filter": name });
    input.value = asked[name];
    input.addEventListener("change", () => ask(name, input.value));
    return input;
  };
  const select = (name, label, options) => {
    const all = options.map(([value, said]) => h("option", { value }, said));
    const element = h("select", { "aria-label": label, "data-filter": name }, all);
    element.value = asked[name];
    element.addEventListener("change", () => ask(name, element.value));
    return element;
  };
  const agents = [...new Set([...apps, asked.app].filter(Boolean))].map((app) => [app, app]);
  return h("div", { class: "filter", role: "search", "aria-label": "Which runs to show" }, h("div", { class: "fields" },
    select("state", "State", Object.entries(STATES)), select("app", "Agent", [["", "Every agent"], ...agents]),
    text("user", "User"), text("session", "Session"),
    h("button", { type: "button", class: "plain", onclick: () => begin(list) }, "Look again")));
}

/** Asks from the newest on. */
async function begin(list) {
  list.turn += 1;
  list.next = null;
  list.count = 0;
  fill(list.body);
  await page(list);
}

async function page(list) {
  const { turn, asked, signal } = list;
  list.older.disabled = true;
  fill(list.said, "Looking…");
  let answer;
  try {
    answer = await get("/v1/runs", { query: { ...asked, before: list.next, limit: PAGE }, signal });
  } catch (error) {
    if (signal.aborted || turn !== list.turn) return;
    list.older.disabled = false;
    fill(list.said, h("span", { class: "problem" }, error.message));
    return;
  }
  // Invariant 2.
  if (signal.aborted || turn !== list.turn) return;
  list.body.append(...answer.runs.map(line));
  list.count += answer.runs.length;
  list.next = answer.next ?? null;
  list.older.hidden = !answer.next;
  list.older.disabled = false;
  fill(list.said, list.count === 0 ? "No run is like that." : answer.next ? "" : `That is all: ${number(list.count)}.`);
  announce(`${several(list.count, "run")} shown.`);
}

function line(run) {
  const to = `#/run/${part(run.run_id)}`;
  const others = (text) => h("td", { title: text }, h("bdi", { dir: "auto" }, text));
  const end = run.settled_at ?? run.ended_at;
  const ended = end ? span(Date.parse(end) - Date.parse(run.accepted_at)) : "goes on";
  const how = { class: "state", "data-state": run.state, "data-outcome": run.outcome?.kind, title: run.outcome?.message };
  return h("tr", { "data-run": run.run_id, "data-state": run.state },
    h("td", null, h("span", how, doing(run))),
    h("td", { class: "asked" }, h("a", { href: to, dir: "auto", title: run.title }, run.title || "(nothing)")),
    others(run.app), others(run.user), others(run.session),
    h("td", { class: "number", title: run.accepted_at }, dayAndTime(run.accepted_at)), h("td", { class: "number" }, ended),
    h("td", null, run.outcome && h("a", { href: `${to}/receipt`, "aria-label": `Receipt of ${run.title}` }, "Receipt")));
}
