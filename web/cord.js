// The cord: stop everything, and let nothing new begin.
//
// 1. Before it is pulled it says what it will do: how many runs, of whom, and that the line is held until somebody opens it.
// 2. Pulling it takes two presses and no typing: one to see what it does, one to do it.
// 3. What has been done is told as it is, whatever went wrong with the rest: a line that is held is said to be held.
// 4. Who may not hold the line can stop what is theirs, and is told that this is all that it does.

import { call, link, may, post } from "./api.js";
import { fill, h, write } from "./dom.js";
import { note } from "./presses.js";
import { settling } from "./settling.js";
import { number, several, STATE } from "./words.js";

/** A dialog that is gone when it is closed, or when the view is. */
export function dialog(name, signal, ...children) {
  const control = new AbortController();
  const close = () => box.close();
  const box = h("dialog", { class: "cord-box", "aria-label": name, onclose: () => { control.abort(); box.remove(); } }, children);
  document.getElementById("view").append(box);
  signal.addEventListener("abort", close, { once: true, signal: control.signal });
  box.showModal();
  return { box, close, signal: AbortSignal.any([signal, control.signal]) };
}

/** The button at the top of the board, and what comes of it. */
export function cord(roster, signal) {
  const isAll = may("admin");
  const name = isAll ? "Pull the cord" : "Stop all my runs";
  const button = h("button", { type: "button", class: "cord the-cord", "data-cord": true, "aria-haspopup": "dialog" }, name);
  button.addEventListener("click", () => ask(roster, signal, isAll, name));
  return may("run:cancel") ? button : null;
}

/** Says what it will do (invariant 1). */
function ask(roster, signal, isAll, name) {
  const what = h("p", { class: "what", "data-cord-count": true });
  const old = h("p", { class: "problem" });
  const why = h("input", { id: "cord-why", autocomplete: "off", maxlength: 500 });
  const now = h("input", { type: "checkbox", id: "cord-now" });
  const go = h("button", { type: "button", class: "cord", "data-cord-confirm": true });
  const { box, close, signal: until } = dialog(name, signal);
  const say = () => {
    const live = roster.live();
    write(what, inWords(live, isAll));
    write(go, isAll ? `Hold the line and stop ${several(live.length, "run")}` : `Stop ${several(live.length, "run")}`);
    write(old, roster.isReady && !roster.isOld ? "" : "The board is not up to date: there may be others than these, and they are stopped as well.");
  };
  roster.watch(say, until);
  say();
  go.addEventListener("click", () => pull(roster, { box, close, until, isAll, force: now.checked ? "now" : "graceful", why: why.value.trim() }));
  fill(box, h("h1", null, isAll ? "Pull the cord?" : "Stop all your runs?"), what, old,
    h("p", null, isAll
      ? "Nothing new is begun until somebody opens the line. What was said and done so far is kept; each run gets its receipt."
      : "Only these: the line stays open, and what begins later is not touched. What was said and done so far is kept."),
    isAll && [h("label", { for: "cord-why" }, "Why, for those who are turned away (may be empty)"), why],
    h("label", { class: "check" }, now, " Now: do not wait for tools to come to their end"),
    h("div", { class: "buttons" }, go, h("button", { type: "button", onclick: close }, "Leave it")));
  go.focus();
}

/** How many runs of whom. */
function inWords(live, isAll) {
  if (!live.length) return isAll ? "No run is live: there is nothing to stop, and nothing new will begin." : "None of your runs is live.";
  const count = (of) => new Set(live.map(of)).size;
  const states = {};
  for (const { row } of live) states[row.state] = (states[row.state] ?? 0) + 1;
  const parts = Object.entries(states).map(([state, many]) => `${number(many)} ${STATE[state]}`);
  const whose = isAll ? `of ${several(count(({ row }) => row.user), "user")} in ${several(count(({ row }) => row.app), "agent")}` : "that are yours to stop";
  return `It stops ${several(live.length, "run")} ${whose}: ${parts.join(", ")}.`;
}

/** Pulls it, and shows them settling. */
async function pull(roster, { box, close, until, isAll, force, why }) {
  const ids = roster.live().map(({ id }) => id);
  for (const id of ids) note(id, force);
  let isBegun = false;
  const said = h("p", { role: "status", class: "small" }, "Pulling…");
  const open = h("button", { type: "button", "data-line-open": true, hidden: !isAll, onclick: () => openLine(roster, {}, said, open) }, "Open the line");
  const rest = h("button", { type: "button", class: "stop", hidden: force === "now", onclick: () => harden(roster, isAll, view, said, rest) }, "Stop the rest now");
  const view = settling(roster, ids, {
    isBegun: () => isBegun, signal: until, onEnd: () => { rest.hidden = true; },
    said: (count, time) => (count === 0 ? "There was nothing to stop." : `All ${several(count, "run")} have settled in ${time}.`).replace("All 1 run have", "The run has") +
      (isAll ? " The line is held." : ""),
  });
  fill(box, h("h1", null, isAll ? "The cord is pulled" : "Your runs are stopping"), view.element, said,
    h("div", { class: "buttons" }, rest, open, h("button", { type: "button", onclick: close }, "Close")));
  const answer = await sent(roster, isAll, force, why, said);
  if (until.aborted) return;
  isBegun = true;
  view.told(answer?.runs ?? null);
}

/** Sends it. What it says of the line is taken as it is (invariant 3). */
async function sent(roster, isAll, force, why, said) {
  try {
    if (!isAll) {
      const answer = await post("/v1/cancel", { all: true, force, wait: true, note: "the page's Stop all" });
      write(said, "");
      return answer;
    }
    const body = { state: "held", cancel: true, wait: true, force, ...(why && { reason: why }) };
    const line = await call("PUT", "/v1/line", { body });
    roster.setLine(line);
    link.dispatchEvent(new Event("line"));
    write(said, "The line is held.");
    return line.stopped;
  } catch (error) {
    const { held, cancelled, pulled } = error.body ?? {};
    said.className = "problem";
    const done = [held && "The line is held.", cancelled > 0 && `${several(cancelled, "run")} were told to stop.`, !held && !pulled && !cancelled && "Nothing is known to have been done."];
    fill(said, done.filter(Boolean).join(" "), " ", error.message);
    if (held) link.dispatchEvent(new Event("line"));
    return null;
  }
}

async function harden(roster, isAll, view, said, button) {
  button.disabled = true;
  for (const id of view.open()) note(id, "now");
  try {
    // The line is held, so all is what is left; without it there may be newer ones, and each is named.
    if (isAll) await post("/v1/cancel", { all: true, force: "now", reason: "operator", note: "the page's cord" });
    else for (const id of view.open()) await post(`/v1/runs/${encodeURIComponent(id)}/cancel`, { force: "now", note: "the page's Stop all" });
    button.hidden = true;
  } catch (error) {
    button.disabled = false;
    said.className = "problem";
    write(said, error.message);
  }
}

/** Opens the line, or one hold on it, and says what came of it. */
export async function openLine(roster, hold, said, button) {
  button.disabled = true;
  const { tenant, app, user } = hold;
  try {
    roster.setLine(await call("PUT", "/v1/line", { body: { state: "open", tenant, app, user } }));
    write(said, "Opened.");
    button.hidden = true;
  } catch (error) {
    said.className = "problem";
    write(said, error.message);
    button.disabled = false;
  }
  link.dispatchEvent(new Event("line"));
}
