// Stop by filter: stops exactly what the confirmation showed.
//
// 1. If the filter is exactly an app, a user or both, the server gets it as a selector and stops all of them at once.
// 2. Otherwise the runs that were there when the dialog opened are stopped by their ids: a selector could hit runs that nobody
//    saw.
// 3. The result is shown for each: stopped, already ended, or refused and why.

import { post, troubleOf, userWord } from "../api.js";
import { button, dialog, nowChoice, turn } from "./dialog.js";
import { fill, h, write } from "../dom.js";
import { stopEach, wasOver } from "./each.js";
import { note, refused } from "./presses.js";
import { allSettled, settling } from "./settling.js";
import { number, several, STATE } from "../words.js";

const LISTED = 100;
const NOTE = "the page's stop by filter";

/**
 * Asks for confirmation, and stops.
 * @param {Look} look
 * @param {Roster} roster
 * @param {AbortSignal} signal
 * @param {() => void} changed called when the rows have to be redrawn
 */
export function stopThese(look, roster, signal, changed) {
  const { box, close, signal: until } = dialog("Stop these runs", signal);
  const asked = { ...look.filter };
  const entries = look.meant(roster);
  const selector = selected(look, entries);
  const meant = () => (selector ? look.meant(roster) : entries.filter(({ row }) => row.state !== "settled"));
  const what = h("p", { class: "what", "data-these-count": true });
  const list = h("ul", { class: "still" });
  const now = nowChoice("these-now");
  const pulled = () => {
    watching.abort();
    pull({ roster, box, close, until, selector, ids: meant().map(({ id }) => id), force: now.force(), changed });
  };
  const go = button("", pulled, { class: "cord", "data-these-confirm": true });
  const say = () => {
    const those = meant();
    write(what, inWords(asked, those.length, entries.length, selector));
    write(go, `Stop ${several(those.length, "run")}`);
    go.disabled = those.length === 0;
    fill(list, named(those));
  };
  fill(box, h("h1", null, "Stop these runs?"), what, list, now.element,
    h("div", { class: "buttons" }, go, button("Cancel", close)));
  const watching = new AbortController();
  roster.watch((changes) => { if (changes.has("rows")) say(); }, AbortSignal.any([until, watching.signal]));
  say();
  go.focus();
}

function named(/** @type {Entry[]} */ entries) {
  const items = entries.slice(0, LISTED).map(({ row }) => h("li", null,
    h("bdi", { dir: "auto", class: "clip" }, row.title || row.run_id),
    h("span", { class: "soft small" }, row.app, ", ", userWord(row.user, row.tenant))));
  if (entries.length > LISTED) items.push(h("li", { class: "soft" }, `and ${number(entries.length - LISTED)} more`));
  return items;
}

/** The server's selector for exactly these runs, if there is one. */
function selected(/** @type {Look} */ look, /** @type {Entry[]} */ entries) {
  if (!look.isSelector) return null;
  const { app, user } = look.filter;
  // A selector is limited to one tenant.
  const tenants = new Set(entries.map(({ row }) => row.tenant));
  if (tenants.size !== 1) return null;
  const [tenant] = tenants;
  return { ...(app && { app }), ...(user && { user }), ...(tenant && { tenant }) };
}

/**
 * What it will do.
 * @param {Record<string, string>} filter
 * @param {number} count how many are live now
 * @param {number} first how many were live when the dialog opened
 * @param {object | null} selector
 */
function inWords({ app, user, state, text }, count, first, selector) {
  const which = [app && `of agent ${app}`, user && `of user ${user}`, state && `that ${state === "waiting" ? "need approval" : `are ${STATE[state]}`}`];
  const named = [...which, text && `with “${text}”`].filter(Boolean).join(" ");
  if (selector) return `This stops all runs ${named}: ${number(count)} right now. Runs that start later are not affected.`;
  const over = first - count;
  const less = over ? ` ${number(over)} of them ${over === 1 ? "has" : "have"} ended since.` : "";
  return `This stops exactly these ${several(count, "run")} ${named} and no others.${less}`;
}

/**
 * Stops them, and shows them settle.
 * @param {{roster: Roster, box: HTMLDialogElement, close: () => void, until: AbortSignal, selector: object | null, ids: string[],
 *   force: "graceful" | "now", changed: () => void}} how
 */
async function pull({ roster, box, close, until, selector, ids, force, changed }) {
  let isAnswered = false;
  const said = h("p", { role: "status", class: "small" });
  const problems = h("ul", { class: "still" });
  const view = settling(roster, ids, {
    isAll: () => isAnswered, signal: until,
    said: allSettled,
  });
  turn(box, h("h1", null, "Stopping…"), view.element, said, problems, h("div", { class: "buttons" }, button("Close", close)));
  for (const id of ids) note(id, force);
  changed();
  const progress = (/** @type {number} */ many) => write(said, `Stop sent to ${number(many)} of ${several(ids.length, "run")}`);
  /** @type {Done} */
  const done = selector ? await atOnce(selector, force, ids) : await stopEach(ids, { force, note: NOTE }, progress);
  changed();
  isAnswered = true;
  if (until.aborted) return;
  write(said, told(done));
  const name = (/** @type {string} */ id) => h("bdi", { class: "clip" }, roster.entries.get(id)?.row.title ?? id);
  const why = (/** @type {string} */ id, /** @type {string} */ text) => h("li", { class: "problem" }, name(id), text);
  fill(problems, done.refused.slice(0, LISTED).map(({ id, text }) => why(id, text)));
  view.told(done.runs);
}

/** @typedef {Omit<import("./each.js").Done, "runs"> & {runs: import("./each.js").Stopped[] | null, problem?: string}} Done */

/** @param {Done} done */
function told({ runs, stopped, refused: not, problem }) {
  const over = (runs?.length ?? 0) - stopped;
  const besides = [over && `${number(over)} already ended`, not.length && `${number(not.length)} refused`];
  return `${[`${several(stopped, "run")} told to stop`, ...besides].filter(Boolean).join(", ")}.${problem ? ` ${problem}` : ""}`;
}

/**
 * @param {object} selector
 * @param {"graceful" | "now"} force
 * @param {string[]} ids
 * @returns {Promise<Done>}
 */
async function atOnce(selector, force, ids) {
  try {
    const { runs } = await post("/v1/cancel", { ...selector, force, note: NOTE });
    return { runs, stopped: runs.filter((run) => !wasOver(run)).length, refused: [] };
  } catch (error) {
    // The number of stopped runs is known even if the stop is not on disk.
    const { body, message } = troubleOf(error);
    const stopped = body?.cancelled ?? 0;
    if (stopped === 0) for (const id of ids) refused(id, message);
    return { runs: null, stopped, refused: [], problem: message };
  }
}
