// The columns of the board: what each shows of a run, and how it sorts.
//
// 1. An unknown figure is never shown as 0: it is left out, or shown as a bound.
// 2. Text from users is isolated from its surroundings, whatever its direction.

import { part, userWord } from "../api.js";
import { h } from "../dom.js";
import { press } from "./presses.js";
import { dayAndTime, doing, failure, figure, figureInFull, money, moneyInFull, number, OUTCOME, shownState, span, spanUs, stalledWords } from "../words.js";

/** @type {Record<string, number>} */
const RANKS = { stalled: 0, waiting: 1, cancelling: 2, running: 3, queued: 4, settled: 5 };

/** @typedef {{cell: HTMLElement, text: Text}} Plain */

/** @type {(cell: HTMLElement) => Plain} */
const plain = (cell) => ({ cell, text: cell.appendChild(document.createTextNode("")) });
/** @type {(cell: HTMLElement) => Plain} */
const others = (cell) => {
  const text = document.createTextNode("");
  cell.append(h("bdi", { dir: "auto" }, text));
  return { cell, text };
};
/**
 * A text from users, by its name in the row.
 * @type {(key: "app" | "user" | "session" | "model" | "tenant", name: string, shown?: (row: Row) => string) => Column<Plain>}
 */
const named = (key, name, shown = (row) => row[key] ?? "") => ({
  key, name, make: others,
  draw: ({ cell, text }, { row }) => {
    put(text, shown(row));
    title(cell, row[key] ?? "");
  },
  rank: ({ row }) => row[key] ?? "",
});
/** @type {(key: string, name: string, of: "input" | "output") => Column<Plain>} a count of tokens */
const tokens = (key, name, of) => ({
  key, name, isNumber: true, isDown: true, make: plain,
  draw: ({ cell, text }, { row }) => {
    const it = row.tokens?.[of];
    // The tokens of a call are only known when it ends.
    const isNew = row.open && !it?.value && !it?.low;
    put(text, isNew ? "…" : figure(it));
    title(cell, isNew ? NOT_YET : figureInFull(it));
  },
  rank: ({ row }) => row.tokens?.[of]?.value ?? row.tokens?.[of]?.low ?? -1,
});

const NOT_YET = "not known yet: the model call is in progress";

/** @type {Column<any>[]} each with parts of its own */
export const COLUMNS = [
  {
    key: "state", name: "State", make: stateParts, draw: drawState,
    rank: ({ row }) => `${RANKS[shownState(row)]} ${row.outcome?.kind ?? row.phase}`,
  },
  { key: "title", name: "Prompt", make: titleParts, draw: drawTitle, rank: ({ row }) => row.title },
  named("app", "Agent"),
  named("user", "User", ({ user, tenant }) => userWord(user, tenant)),
  named("session", "Session"),
  { key: "began", name: "Duration", isNumber: true, isDown: true, make: plain, draw: drawTime, rank: ({ began }) => began },
  {
    key: "rate", name: "Tokens/s", isNumber: true, isDown: true, make: plain,
    draw: ({ cell, text }, entry, roster) => {
      const rate = roster.rate(entry);
      put(text, entry.row.state === "settled" ? "" : pace(rate));
      // Pieces that an earlier process of the server took are not counted.
      const { pieces } = entry.row;
      title(cell, pieces === undefined ? "total not known" : `${number(pieces)} streamed pieces in total, about one token each`);
    },
    rank: (entry, roster) => roster.rate(entry),
  },
  tokens("in", "Tokens in", "input"),
  tokens("out", "Tokens out", "output"),
  {
    key: "cost", name: "Cost", isNumber: true, isDown: true, make: plain,
    draw: ({ cell, text }, { row }) => {
      const isNew = row.cost && row.open && !row.cost.value && !row.cost.low;
      put(text, isNew ? "…" : money(row.cost));
      title(cell, isNew ? NOT_YET : moneyInFull(row.cost));
    },
    rank: ({ row }) => row.cost?.value ?? row.cost?.low ?? -1,
  },
  named("model", "Model"),
  named("tenant", "Tenant"),
];

function pace(/** @type {number} */ rate) {
  if (rate >= 10) return number(Math.round(rate));
  return rate > 0 ? rate.toFixed(1) : "–";
}

/** Sets the text of a node if it has changed. */
export function put(/** @type {Text} */ node, /** @type {string} */ text) {
  if (node.data !== text) node.data = text;
}

function title(/** @type {HTMLElement} */ element, /** @type {string} */ text) {
  if (element.title !== text) element.title = text;
}

export function mark(/** @type {HTMLElement} */ element, /** @type {string} */ name, /** @type {string | null | undefined} */ value) {
  if (value === undefined || value === null) {
    if (name in element.dataset) delete element.dataset[name];
  } else if (element.dataset[name] !== value) element.dataset[name] = value;
}

/** The state of a run in its row: a press on Stop shows before the server has responded, but not if it was not sent. */
export function stateOf(/** @type {Entry} */ entry) {
  const state = shownState(entry.row);
  return press(entry)?.isStopping && state !== "settled" && state !== "stalled" ? "cancelling" : state;
}

function stateParts(/** @type {HTMLElement} */ cell) {
  const text = document.createTextNode("");
  const lamp = h("span", { class: "state" }, text);
  const more = document.createTextNode("");
  const besides = h("span", { class: "soft small more" }, more);
  cell.append(lamp, besides);
  return { cell, lamp, text, more, besides };
}

function drawState(/** @type {ReturnType<typeof stateParts>} */ { cell, lamp, text, more, besides }, /** @type {Entry} */ entry) {
  const { row } = entry;
  const state = stateOf(entry);
  const { pressed = null, words = "", isUnsent = false } = press(entry) ?? {};
  mark(lamp, "state", isUnsent ? "unsent" : state);
  mark(lamp, "outcome", row.outcome?.kind);
  const problem = pressed ? "" : words;
  lamp.classList.toggle("sure", isUnsent);
  put(text, isUnsent ? "stop not sent" : doing({ ...row, state }));
  put(more, problem ? " not stopped" : isUnsent ? "" : further(row));
  // On a narrow screen only this part is kept.
  mark(besides, "leaked", row.leaked || problem ? "yes" : undefined);
  title(cell, problem ? `Not stopped: ${problem}` : (state !== "stalled" && words) || inFull(entry, state));
  mark(cell, "problem", problem ? "yes" : undefined);
}

/** How long a stop took, and what it leaked. */
function further(/** @type {Row} */ row) {
  if (row.leaked) return ` ${number(row.leaked)} leaked`;
  if (row.outcome?.kind === "cancelled" && row.took_us !== undefined) return ` in ${spanUs(row.took_us)}`;
  return "";
}

function inFull(/** @type {Entry} */ entry, /** @type {ShownState} */ state) {
  const { row } = entry;
  if (state === "stalled") return stalledWords(row.stalled, row.state === "cancelling" || press(entry)?.isStopping === true);
  if (state === "settled") return [OUTCOME[row.outcome?.kind ?? ""] ?? "settled", failure(row.outcome)].filter(Boolean).join(": ");
  const tools = row.tools?.length ? `: ${row.tools.join(", ")}` : "";
  const waits = row.waiting?.length ? `: ${row.waiting.map(({ tool }) => tool).join(", ")}` : "";
  return `${doing({ ...row, state })}${tools}${waits}`;
}

function titleParts(/** @type {HTMLElement} */ cell) {
  const text = document.createTextNode("");
  const to = h("a", { dir: "auto", class: "to", tabindex: "-1" }, text);
  cell.append(to);
  return { to, text };
}

function drawTitle(/** @type {ReturnType<typeof titleParts>} */ { to, text }, /** @type {Entry} */ { row, id }) {
  const href = `#/run/${part(id)}`;
  if (to.getAttribute("href") !== href) to.setAttribute("href", href);
  put(text, row.title || "(no prompt)");
  title(to, row.title);
}

function drawTime(/** @type {Plain} */ { cell, text }, /** @type {Entry} */ { row, began, ended }, /** @type {Roster} */ roster) {
  put(text, ended === null ? ticking(roster.now() - began) : span(ended - began));
  title(cell, `accepted ${dayAndTime(row.accepted_at)}${row.settled_at ? `, settled ${dayAndTime(row.settled_at)}` : ""}`);
}

/** A running time, in whole seconds so that it does not flicker. */
function ticking(/** @type {number} */ ms) {
  const whole = Math.max(0, Math.floor(ms / 1000));
  return whole < 60 ? `${whole} s` : span(whole * 1000);
}
