// Stop by filter: stops what the confirmation showed.
//
// 1. Where the filter is exactly an app, a user or both, the server is told so, and stops all of them in one go.
// 2. Else the runs are those that were there when the question was asked, and each is stopped by its id: a selector would hit
//    others that nobody saw.
// 3. What became of each is said: stopped, already over, or refused and why.

import { post, stopRun } from "./api.js";
import { dialog } from "./cord.js";
import { fill, h, write } from "./dom.js";
import { note, refused } from "./presses.js";
import { settling } from "./settling.js";
import { number, several, STATE } from "./words.js";

/** How many are asked for at one time: the browser opens few connections, and a Stop on a row must still get through. */
const AT_ONCE = 4;
const LISTED = 100;

/** Asks, and stops. */
export function stopThese(look, roster, signal, changed) {
  const entries = look.meant(roster);
  const selector = selected(look, entries);
  const list = h("ul", { class: "still" });
  const what = h("p", { class: "what", "data-these-count": true });
  const now = h("input", { type: "checkbox", id: "these-now" });
  const go = h("button", { type: "button", class: "cord", "data-these-confirm": true });
  const { box, close, signal: until } = dialog("Stop these runs", signal);
  const say = () => {
    const meant = selector ? look.meant(roster) : entries.filter(({ row }) => row.state !== "settled");
    write(what, inWords(look, meant, entries, selector));
    write(go, `Stop ${several(meant.length, "run")}`);
    go.disabled = meant.length === 0;
    const items = meant.slice(0, LISTED).map(({ row }) => h("li", null, h("bdi", { dir: "auto", class: "clip" }, row.title || row.run_id), " ", h("span", { class: "soft small" }, row.app, ", ", row.user)));
    if (meant.length > LISTED) items.push(h("li", { class: "soft" }, `and ${number(meant.length - LISTED)} more`));
    fill(list, items);
  };
  roster.watch((changes) => { if (changes.has("rows")) say(); }, until);
  say();
  go.addEventListener("click", () => {
    const meant = selector ? look.meant(roster) : entries;
    pull({ roster, box, close, until, selector, ids: meant.map(({ id }) => id), force: now.checked ? "now" : "graceful", changed });
  });
  fill(box, h("h1", null, "Stop these runs?"), what, list,
    h("label", { class: "check" }, now, " Now: do not wait for tools to come to their end"),
    h("div", { class: "buttons" }, go, h("button", { type: "button", onclick: close }, "Leave it")));
  go.focus();
}

/** The server's selector for exactly these, if there is one. */
function selected(look, entries) {
  if (!look.isSelector) return null;
  const { app, user } = look.filter;
  const tenants = new Set(entries.map(({ row }) => row.tenant));
  // A selector is of one tenant.
  if (tenants.size !== 1) return null;
  return { ...(app && { app }), ...(user && { user }), ...(entries[0].row.tenant && { tenant: entries[0].row.tenant }) };
}

function inWords(look, meant, entries, selector) {
  const { app, user, state, text } = look.filter;
  const named = [app && `of the agent ${app}`, user && `of the user ${user}`, state && `that are ${STATE[state]}`, text && `with “${text}”`].filter(Boolean).join(" ");
  if (selector) return `It stops all runs ${named}: ${number(meant.length)} now. Those that come later are not touched.`;
  const over = entries.length - meant.length;
  return `It stops exactly these ${several(meant.length, "run")} ${named}, whatever they do by then, and no others.${over ? ` ${number(over)} ${over === 1 ? "is" : "are"} over by now.` : ""}`;
}

async function pull({ roster, box, close, until, selector, ids, force, changed }) {
  let isBegun = false;
  const said = h("p", { role: "status", class: "small" });
  const problems = h("ul", { class: "still" });
  const view = settling(roster, ids, {
    isBegun: () => isBegun, signal: until,
    said: (count, time) => (count === 1 ? `The run has settled in ${time}.` : `All ${number(count)} runs have settled in ${time}.`),
  });
  fill(box, h("h1", null, "Stopping"), view.element, said, problems, h("div", { class: "buttons" }, h("button", { type: "button", onclick: close }, "Close")));
  for (const id of ids) note(id, force);
  changed();
  const done = selector ? await atOnce(selector, force) : await oneByOne(ids, force, (many) => write(said, `${number(many)} of ${several(ids.length, "run")} asked`));
  changed();
  if (until.aborted) return;
  isBegun = true;
  write(said, told(done));
  fill(problems, done.refused.slice(0, LISTED).map(({ id, why }) => h("li", { class: "problem" }, roster.entries.get(id)?.row.title ?? id, ": ", why)));
  view.told(done.runs);
}

function told({ stopped, over, refused: not, problem }) {
  const parts = [`${several(stopped.length, "run")} told to stop`, over.length && `${number(over.length)} already over`, not.length && `${number(not.length)} refused`];
  return `${parts.filter(Boolean).join(", ")}.${problem ? ` ${problem}` : ""}`;
}

async function atOnce(selector, force) {
  try {
    const { runs } = await post("/v1/cancel", { ...selector, force, note: "the page's stop by filter" });
    return { runs, stopped: runs.filter((run) => !isOver(run)), over: runs.filter(isOver), refused: [] };
  } catch (error) {
    const { cancelled } = error.body ?? {};
    const problem = `${cancelled ? `${several(cancelled, "run")} told to stop, but: ` : ""}${error.message}`;
    return { runs: null, stopped: [], over: [], refused: [], problem };
  }
}

async function oneByOne(ids, force, progress) {
  const done = { runs: [], stopped: [], over: [], refused: [] };
  const left = [...ids];
  let many = 0;
  const work = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      await one(id, force, done);
      progress((many += 1));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return done;
}

async function one(id, force, done) {
  try {
    const run = await stopRun(id, { force, note: "the page's stop by filter" });
    done.runs.push(run);
    (isOver(run) ? done.over : done.stopped).push(run);
  } catch (error) {
    // A cord that was pulled is pulled, even if the disk has not taken it yet.
    if (error.body?.pulled) {
      done.runs.push({ run_id: id });
      done.stopped.push({ run_id: id });
      return;
    }
    refused(id, error.message);
    done.refused.push({ id, why: error.message });
  }
}

const isOver = ({ reply }) => reply === "too_late" || reply === "not_running";
