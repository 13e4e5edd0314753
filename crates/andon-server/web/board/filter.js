// The controls above the rows: which runs to show.
//
// 1. They offer the values that occur, and the selected one even if it does not. A count is the number of rows that a press shows.
// 2. A list does not change while someone has it open.

import { userWord } from "../api.js";
import { h, write } from "../dom.js";
import { COLUMNS } from "./columns.js";
import { folded } from "./folded.js";
import { number, shownState } from "../words.js";

/** In the order in which a run passes through them. */
const STATES = [
  ["", "All"], ["queued", "Queued"], ["running", "Running"], ["waiting", "Needs approval"], ["cancelling", "Stopping"],
  ["stalled", "Stalled"], ["settled", "Recently settled"],
];
/** Offered only while a run is in this state. */
const RARE = "stalled";
/** With more names than this, use the search instead. */
const MOST = 300;

/**
 * @param {Look} look
 * @param {Roster} roster
 * @param {() => void} changed called when the filter or the order has changed
 */
export function controls(look, roster, changed) {
  const choose = (/** @type {string} */ name, /** @type {string} */ value) => {
    look.filter[name] = value;
    update();
    changed();
  };
  const states = STATES.map(([state, name]) => {
    const count = h("span", { class: "count number" });
    const onclick = () => choose("state", state);
    const button = h("button", { type: "button", class: "chip", "data-filter": state || "all", onclick }, name, " ", count);
    return { state, button, count };
  });
  const app = list("Agent", "app", choose);
  const user = list("User", "user", choose, ownToo);
  const where = "Search by prompt, session, user or run ID";
  const text = h("input", { type: "search", placeholder: "Search runs", title: where, "aria-label": where, "data-filter": "text" });
  text.value = look.filter.text;
  text.addEventListener("input", () => choose("text", text.value.trim()));
  const sort = order(look, changed);
  const showAll = () => {
    text.value = "";
    look.filter = { app: "", user: "", state: "", text: "" };
    update();
    changed();
  };
  const clear = h("button", { type: "button", class: "plain", onclick: showAll }, "Clear filters");
  const fields = h("div", { class: "fields" }, app.element, user.element, text, sort.element, clear);
  const fold = folded("Filter", fields);
  const element = h("div", { class: "filter", role: "search", "aria-label": "Filter runs" },
    h("div", { class: "chips", role: "group", "aria-label": "State" }, states.map(({ button }) => button)), fields);

  function update() {
    const counts = counted(roster, look);
    for (const { state, button, count } of states) {
      const many = counts.states[state] ?? 0;
      write(count, number(many));
      button.hidden = state === RARE && many === 0 && look.filter.state !== RARE;
      button.setAttribute("aria-pressed", String(look.filter.state === state));
    }
    app.update(counts.apps, look.filter.app);
    user.update(counts.users, look.filter.user);
    sort.update();
    clear.hidden = !look.isNarrow;
    fold.count(["app", "user", "text"].filter((name) => look.filter[name]).length);
  }
  return { element, update, fold: fold.button, fields };
}

/** How many rows there are for each state, and which agents and users have runs. */
function counted(/** @type {Roster} */ roster, /** @type {Look} */ look) {
  /** @type {Record<string, number>} */
  const states = {};
  const now = roster.now();
  const count = (/** @type {Entry} */ entry, /** @type {string} */ state) => { if (look.isShown(entry, now, state)) states[state] = (states[state] ?? 0) + 1; };
  /** @type {Set<string>} */
  const apps = new Set();
  /** @type {Set<string>} */
  const users = new Set();
  for (const entry of roster.entries.values()) {
    const { app, user } = entry.row;
    apps.add(app);
    users.add(user);
    count(entry, "");
    count(entry, shownState(entry.row));
  }
  return { states, apps, users };
}

/** A user in the list: "you" with the name beside it, because the name is what is filtered by. */
const ownToo = (/** @type {string} */ user) => (userWord(user) === user ? user : `${userWord(user)} (${user})`);

/**
 * A list of names to choose from.
 * @param {string} name
 * @param {string} field
 * @param {(field: string, value: string) => void} choose
 */
function list(name, field, choose, words = (/** @type {string} */ value) => value) {
  const select = h("select", { "aria-label": name, "data-filter": field });
  select.addEventListener("change", () => choose(field, select.value));
  let shown = "";
  const update = (/** @type {Set<string>} */ names, /** @type {string} */ chosen) => {
    const all = [...new Set([...names].sort().slice(0, MOST).concat(chosen || []))];
    const wanted = JSON.stringify(all);
    // Invariant 2.
    if (wanted !== shown && document.activeElement !== select) {
      shown = wanted;
      const option = (/** @type {string} */ value, /** @type {string} */ text) => h("option", { value }, text);
      select.replaceChildren(option("", `All ${name.toLowerCase()}s`), ...all.map((value) => option(value, words(value))));
    }
    if (select.value !== chosen) select.value = chosen;
  };
  return { element: select, update };
}

/** The order, on screens too narrow for the column headers. */
function order(/** @type {Look} */ look, /** @type {() => void} */ changed) {
  const select = h("select", { "aria-label": "Sort", class: "order" },
    COLUMNS.map(({ key, name }) => h("option", { value: key }, key === "began" ? "Newest first" : `By ${name.toLowerCase()}`)));
  select.addEventListener("change", () => {
    if (select.value !== look.column) look.sortBy(select.value);
    changed();
  });
  return { element: select, update: () => { if (select.value !== look.column) select.value = look.column; } };
}
