// Pulling the cord: stops everything, and lets nothing new start.
//
// 1. The dialog first says what pulling will do: how many runs of how many users, and that the line is held until someone opens it.
// 2. It takes two presses and no typing: one to see what it will do, one to do it.
// 3. It reports what was done even if something else went wrong: a held line is reported as held.
// 4. "Stop the rest now" stops runs one by one, so that runs that have started since are not affected.
// 5. Those who may not hold the line can stop their own runs, and are told that this is all it does.

import { call, link, post, serverIsGone, troubleOf } from "../api.js";
import { button, dialog, nowChoice, turn } from "./dialog.js";
import { stopEach } from "./each.js";
import { fill, h, write } from "../dom.js";
import { openLine } from "./line.js";
import { note, refused } from "./presses.js";
import { allSettled, settling } from "./settling.js";
import { number, several, shownState, STATE } from "../words.js";

const OLD = "The board is out of date. There may be other runs, which will be stopped too.";
const GONE = "The server is not responding, so these numbers may be out of date. You can try anyway: you will see whether it worked.";
const ALL = "No new runs start until someone opens the line. Everything said and done so far is kept, and each run gets a receipt.";
const OWN = "The line stays open, and runs that start later are not affected. Everything said and done so far is kept.";

/**
 * @typedef {{box: HTMLDialogElement, close: () => void, until: AbortSignal, isAll: boolean, force: "graceful" | "now", why: string}} How
 *   `isAll`: it holds the line and stops all runs, and not only one's own
 */

/**
 * Asks for confirmation (invariant 1), then pulls the cord.
 * @param {Roster} roster
 * @param {AbortSignal} signal
 * @param {boolean} isAll
 */
export function askToPull(roster, signal, isAll) {
  const { box, close, signal: until } = dialog(isAll ? "Pull the cord" : "Stop all my runs", signal);
  const what = h("p", { class: "what", "data-cord-count": true });
  const old = h("p", { class: "problem" });
  const why = h("input", { id: "cord-why", autocomplete: "off", maxlength: 500 });
  const now = nowChoice("cord-now");
  const go = button("", () => pull(roster, { box, close, until, isAll, force: now.force(), why: why.value.trim() }),
    { class: "cord", "data-cord-confirm": true });
  const say = () => {
    const live = roster.live();
    write(what, inWords(live, isAll));
    write(go, isAll && !live.length ? "Hold the line" : `${isAll ? "Hold the line and stop" : "Stop"} ${several(live.length, "run")}`);
    go.disabled = !isAll && !live.length && roster.isReady && !roster.isOld;
    write(old, serverIsGone() ? GONE : roster.isReady && !roster.isOld ? "" : OLD);
  };
  fill(box, h("h1", null, isAll ? "Pull the cord?" : "Stop all your runs?"), what, old, h("p", null, isAll ? ALL : OWN),
    isAll && [h("label", { for: "cord-why" }, "Reason (optional, shown to anyone who is turned away)"), why], now.element,
    h("div", { class: "buttons" }, go, button("Cancel", close)));
  const watching = new AbortController();
  const meanwhile = AbortSignal.any([until, watching.signal]);
  roster.watch(say, meanwhile);
  for (const kind of ["gone", "back"]) link.addEventListener(kind, say, { signal: meanwhile });
  go.addEventListener("click", () => watching.abort(), { once: true });
  say();
  go.focus();
}

/** How many runs it stops, and whose. */
function inWords(/** @type {Entry[]} */ live, /** @type {boolean} */ isAll) {
  if (!live.length) return isAll ? "There are no live runs to stop." : "You have no live runs.";
  const count = (/** @type {"app" | "user"} */ field) => new Set(live.map(({ row }) => row[field])).size;
  /** @type {Record<string, number>} */
  const states = {};
  for (const { row } of live) states[shownState(row)] = (states[shownState(row)] ?? 0) + 1;
  const are = (/** @type {string} */ state, /** @type {number} */ many) => (state === "waiting" && many > 1 ? "need approval" : STATE[state]);
  const parts = Object.entries(states).map(([state, many]) => `${number(many)} ${are(state, many)}`);
  const whose = `${several(live.length, "run")} (${several(count("user"), "user")}, ${several(count("app"), "agent")})`;
  return `This stops ${isAll ? whose : `your ${several(live.length, "run")}`}: ${parts.join(", ")}.`;
}

/** Pulls the cord, and shows the runs settle. */
async function pull(/** @type {Roster} */ roster, /** @type {How} */ how) {
  const { box, close, until, isAll, force } = how;
  const ids = roster.live().map(({ id }) => id);
  for (const id of ids) note(id, force);
  roster.drawAgain();
  let isAnswered = false;
  const name = h("h1", null, isAll ? "Pulling the cord…" : "Stopping…");
  const said = h("p", { role: "status", class: "small" });
  const pulled = () => write(name, isAll ? "Cord pulled" : "Your runs are stopping");
  roster.watch((changes) => { if (changes.has("line") && roster.line?.state === "held") pulled(); }, until);
  const view = settling(roster, ids, {
    isAll: () => isAnswered, signal: until, onEnd: () => hide(rest, name),
    said: (count, time) => allSettled(count, time) + (isAll ? lineNow(roster) : ""),
  });
  /** @type {HTMLButtonElement} */
  const rest = button("Stop the rest now", () => harden({ view, said, rest, name }), { class: "stop", hidden: force === "now" });
  /** @type {HTMLButtonElement} */
  const open = button("Open the line", () => openLine(roster, {}, said, open), { "data-line-open": true, hidden: !isAll });
  const buttons = h("div", { class: "buttons" }, rest, open, button("Close", close));
  turn(box, name, view.element, said, buttons);
  const { runs, isDone } = await sent(roster, { ...how, said, ids });
  isAnswered = true;
  roster.drawAgain();
  if (until.aborted) return;
  if (isDone) {
    pulled();
    view.told(runs);
    return;
  }
  // Retrying is safe, whatever happened.
  write(name, isAll ? "The cord may not have been pulled" : "Your runs may not have been stopped");
  const again = button("Retry", () => pull(roster, how), { class: "cord" });
  turn(box, name, said, h("div", { class: "buttons" }, again, button("Close", close)));
}

const lineNow = (/** @type {Roster} */ { line }) => (line?.state === "held" ? " The line is held." : "");

/**
 * Sends the request. Returns whether anything is known to have been done, and what became of each run if that is known
 * (invariant 3).
 * @param {Roster} roster
 * @param {How & {said: HTMLElement, ids: string[]}} how
 */
async function sent(roster, { isAll, force, why, said, ids }) {
  try {
    return { runs: isAll ? await holdAndStop(roster, force, why) : await stopOwn(force), isDone: true };
  } catch (error) {
    const { body = {}, message } = troubleOf(error);
    said.className = "problem";
    write(said, `${done(body)} ${message}`);
    const isDone = Boolean(body.held || body.cancelled);
    if (!isDone) for (const id of ids) refused(id, message);
    return { runs: null, isDone };
  } finally {
    if (isAll) link.dispatchEvent(new Event("line"));
  }
}

async function holdAndStop(/** @type {Roster} */ roster, /** @type {Api.Force} */ force, /** @type {string} */ why) {
  // The response comes when all of them have settled, so it is proof that they have.
  const body = { state: "held", cancel: true, wait: true, force, ...(why && { reason: why }) };
  const line = await call("PUT", "/v1/line", { body });
  roster.setLine(line);
  return line.stopped?.runs ?? null;
}

const stopOwn = async (/** @type {Api.Force} */ force) => (await post("/v1/cancel", { all: true, force, wait: true, note: "the page's Stop all" })).runs;

/** What was done in spite of an error (invariant 3). */
function done(/** @type {Api.Problem} */ { held, cancelled = 0 }) {
  if (!held && !cancelled) return "It is unknown whether anything was stopped.";
  return [held && "The line is held.", cancelled > 0 && `${several(cancelled, "run")} told to stop.`].filter(Boolean).join(" ");
}

/** @param {{view: ReturnType<typeof settling>, said: HTMLElement, rest: HTMLButtonElement, name: HTMLElement}} all */
async function harden({ view, said, rest, name }) {
  const open = view.open();
  for (const id of open) note(id, "now");
  hide(rest, name);
  const { refused: not } = await stopEach(open, { force: "now", note: "the page's Stop the rest now" });
  if (!not.length) return;
  rest.hidden = false;
  said.className = "problem";
  write(said, `${several(not.length, "run")} could not be stopped now: ${not[0].text}`);
}

/** Hides a button without losing the focus. */
function hide(/** @type {HTMLButtonElement} */ button, /** @type {HTMLElement} */ name) {
  if (button === document.activeElement) name.focus();
  button.hidden = true;
}
