// The line, always in view: open or held, by whom, since when and why, with buttons to hold and open it.
//
// 1. It shows what the server last reported, never what was merely requested. While the server does not respond it is unknown.
// 2. Every hold is shown, with a button to open it for those who may.
// 3. When it is redrawn, it keeps the focus.

import { call, link, may, me, nameWord, serverIsGone, troubleOf } from "../api.js";
import { fill, h, write } from "../dom.js";
import { dayAndTime, timeOfDay } from "../words.js";

/** @typedef {Api.Hold & {other?: string}} Hold `other` is its tenant if that is not ours */

/**
 * The line's state, and its holds on agents and users.
 * @param {Roster} roster
 * @param {AbortSignal} signal
 * @returns {{state: HTMLElement, holds: HTMLElement}}
 */
export function lineBar(roster, signal) {
  const state = h("div", { class: "line-state", "data-line-state": "unknown", tabindex: "-1" });
  const holds = h("ul", { class: "holds", "aria-label": "Held agents and users" });
  const isMine = may("admin");
  /** @type {string | null} */
  let own = null;
  const isHere = () => state.contains(document.activeElement) || holds.contains(document.activeElement);
  const askToHold = async () => {
    const hold = await import("./hold.js");
    if (!signal.aborted) hold.askToHold(roster, signal);
  };
  const hold = h("button", { type: "button", class: "plain small", "data-line-hold": true, onclick: askToHold }, "Hold…");
  const draw = () => {
    const { line } = roster;
    if (!line) return;
    const wasHere = isHere();
    if (serverIsGone() || roster.isOld) {
      state.dataset.lineState = "unknown";
      fill(state, h("span", { class: "state", "data-state": "unknown" }, "Line: unknown"));
      fill(holds);
      return;
    }
    state.dataset.lineState = line.state;
    const isHeld = line.state === "held";
    // Our own tenant is not mentioned.
    const said = line.holds.map((hold) => ({ ...hold, other: hold.tenant === own ? undefined : hold.tenant }));
    const lamp = h("span", { class: "state", "data-state": isHeld ? "cancelling" : "running" }, `The line is ${line.state}`);
    const onAll = said.filter(isOnAll).map((one) => held(roster, one, isMine));
    fill(state, lamp, isHeld && h("span", { class: "small" }, "No new runs start."), onAll, isMine && !isHeld && hold);
    fill(holds, said.filter((one) => !isOnAll(one)).map((one) => h("li", null, held(roster, one, isMine))));
    if (wasHere) (state.querySelector("button") ?? state).focus({ preventScroll: true });
  };
  roster.watch((changes) => { if (changes.has("line") || changes.has("old")) draw(); }, signal);
  for (const kind of ["gone", "back"]) link.addEventListener(kind, draw, { signal });
  me().then(({ tenant }) => { own = tenant; draw(); }).catch(draw);
  return { state, holds };
}

const isOnAll = (/** @type {Hold} */ { app, user, other }) => !app && !user && !other;

/**
 * One hold in words: "agent travel: held by ada since 12:00: reason".
 * @param {Roster} roster
 * @param {Hold} hold
 * @param {boolean} isMine
 */
function held(roster, hold, isMine) {
  const said = h("span", { role: "status" });
  const isAll = isOnAll(hold);
  const how = { type: "button", class: isAll ? "strong" : null, "data-line-open": true, onclick: () => openLine(roster, hold, said, open) };
  const open = h("button", how, isAll ? "Open the line" : "Open");
  const isToday = new Date(hold.since).toDateString() === new Date().toDateString();
  const since = isToday ? timeOfDay(hold.since) : dayAndTime(hold.since);
  return h("span", { class: "hold small" }, whom(hold) ?? "Held", " by ", h("bdi", null, nameWord(hold.by)), ` since ${since}`,
    hold.reason && [": ", h("bdi", { class: "clip", title: hold.reason }, hold.reason)], " ", isMine && open, said);
}

function whom(/** @type {Hold} */ { app, user, other }) {
  const of = other ? [" of ", h("bdi", null, other)] : null;
  if (app) return ["Agent ", h("bdi", null, app), of, " is held"];
  if (user) return ["User ", h("bdi", null, user), of, " is held"];
  return other ? ["Tenant ", h("bdi", null, other), " is held"] : null;
}

/**
 * Opens the line, or removes one hold on it, and shows the result.
 * @param {Roster} roster
 * @param {{tenant?: string, app?: string, user?: string}} hold
 * @param {HTMLElement} said
 * @param {HTMLButtonElement} button
 */
export async function openLine(roster, { tenant, app, user }, said, button) {
  if (button.ariaBusy === "true") return;
  // A disabled button would lose the focus.
  button.ariaBusy = "true";
  try {
    roster.setLine(await call("PUT", "/v1/line", { body: { state: "open", tenant, app, user } }));
    if (button === document.activeElement) button.closest("dialog")?.querySelector("h1")?.focus();
    button.hidden = true;
    write(said, "The line is open.");
  } catch (error) {
    button.ariaBusy = "false";
    said.className = "problem";
    write(said, troubleOf(error).message);
  }
  link.dispatchEvent(new Event("line"));
}
