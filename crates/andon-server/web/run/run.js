// The page of one run: its head, its timeline, its events, its conversation and its usage. The receipt is a separate view.
//
// 1. Everything comes from the run's feed, which resumes after a break, and from its receipt.
// 2. However much arrives, only a little is processed in each frame.

import { get, part, serverIsGone, serverNow, troubleOf } from "../api.js";
import { announce, fill, h, styled } from "../dom.js";
import { account } from "./account.js";
import { conversation } from "./conversation.js";
import { EventLog } from "./eventlog.js";
import { events } from "./events.js";
import { follow } from "../feed.js";
import { intake } from "./intake.js";
import { runHead } from "./runhead.js";
import { tabs } from "./tabs.js";
import { timeline } from "./timeline.js";
import { Trace } from "./trace.js";
import { usageTable } from "./usage.js";

/** How long to wait for the first events before showing the page without them, in milliseconds. */
const PATIENCE = 3000;
/** How often to check whether the run has stalled, in milliseconds. */
const LOOK = 2000;

/** @type {ViewModule["default"]} */
export default async function view(place, { parts, query }, signal) {
  const [id, what] = parts;
  if (!id) {
    fill(place, nothing("No run selected. ", "#/runs", "Go to the history"));
    return;
  }
  fill(place, skeleton(what));
  if (what === "receipt") {
    const [{ receiptView }] = await Promise.all([import("./receipt.js"), styled("run/receipt.css")]);
    await found(place, signal, () => receiptView(place, id, signal));
    return;
  }
  await found(place, signal, async () => {
    const run = await get(`/v1/runs/${part(id)}`, { signal });
    if (!signal.aborted) page(place, run, Number(query.get("seq")) || null, signal);
  });
}

/**
 * Does the work, or says that there is no such run.
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} work
 */
async function found(place, signal, work) {
  try {
    await work();
  } catch (error) {
    if (signal.aborted) return;
    const { status } = troubleOf(error);
    if (status === 404) {
      fill(place, nothing("Run not found, or you do not have access to it. ", "#/runs", "Go to the history"));
    } else if (status === 403) {
      fill(place, nothing("Your key cannot read runs. Ask the server’s administrator for a key with the scope run:read. ", "#/", "Go to the board"));
    } else throw error;
  }
}

const nothing = (/** @type {string} */ words, /** @type {string} */ href, /** @type {string} */ way) => h("div", { class: "empty", role: "alert" }, h("p", null, words, h("a", { href }, way)));

/** Takes as much room as will be needed, so that nothing jumps. */
function skeleton(/** @type {string | undefined} */ what) {
  return h("div", { class: "runpage skeleton", "aria-busy": "true" },
    h("h1", null, what === "receipt" ? "Loading the receipt…" : "Loading the run…"),
    what === "receipt" ? null : ghost());
}

const ghost = () => h("div", { class: "card ghost" }, h("p", { class: "soft" }, "Loading events…"));

/**
 * @param {HTMLElement} place
 * @param {Api.Run} run
 * @param {number | null} wanted the number of the event to show
 * @param {AbortSignal} signal
 */
function page(place, run, wanted, signal) {
  const trace = new Trace();
  const log = new EventLog();
  const began = Date.parse(run.accepted_at);
  // The age of an open run is by the server's clock, unless the latest event is later.
  const now = () => {
    if (trace.isSettled) return trace.latest;
    const ended = run.settled_at ?? run.ended_at;
    return ended ? Date.parse(ended) - began : Math.max(serverNow() - began, trace.latest);
  };
  const head = runHead(run, { now, signal });
  const list = events(log, { toolOf: (call) => trace.toolOf(call), onChoose: (seq) => remember(run.run_id, seq), signal });
  const used = h("div", null, h("p", { class: "soft" }, "Loading…"));
  const talk = conversation(run.run_id, signal);
  const panels = tabs([
    { name: "Events", element: list.element },
    { name: "Conversation", element: talk.element, onShow: talk.load },
    { name: "Usage", element: used },
  ], "Run details");
  const pick = (/** @type {number} */ seq) => {
    panels.show(0);
    list.jump(seq);
  };
  const chart = timeline(trace, { onPick: pick, now, signal });
  const rest = ghost();
  fill(place, h("div", { class: "runpage" }, head.element, rest));
  // The head shows at once. The rest shows with the first events, when its size is known, so that nothing jumps.
  const show = () => {
    if (signal.aborted || !rest.isConnected) return;
    rest.replaceWith(chart.element, panels.element);
    chart.draw();
  };
  setTimeout(show, PATIENCE);
  document.title = `${run.title.slice(0, 60)} · Andon`;
  const books = account(run.run_id, (receipt) => {
    fill(used, usageTable(receipt));
    trace.learn(receipt);
    chart.changed();
    if (receipt.settled_at) head.changed({ settled_at: receipt.settled_at });
  }, signal);
  books.first.catch((error) => { if (!signal.aborted) fill(used, h("p", { class: "problem" }, error.message)); });
  lookForStall(run, { trace, head }, signal);
  feed(run, { trace, log, head, list, chart, books, talk, panels, wanted, pick, show }, signal);
}

/**
 * Checks from time to time whether the run has stalled, until it has settled. The feed has only what is on record, so it cannot tell.
 * @param {Api.Run} run
 * @param {Pick<All, "trace" | "head">} all
 * @param {AbortSignal} signal
 */
function lookForStall(run, { trace, head }, signal) {
  let known = run.stalled;
  const look = async () => {
    if (trace.isSettled) clearInterval(timer);
    if (trace.isSettled || document.hidden || serverIsGone()) return;
    // If it fails, the next check may work.
    const { stalled } = await get(`/v1/runs/${part(run.run_id)}`, { signal }).catch(() => ({ stalled: known }));
    if (stalled !== known) head.changed({ stalled });
    known = stalled;
  };
  const timer = setInterval(look, LOOK);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

/** After these facts the receipt has more to say. */
const NEWS = new Set(["usage", "tool_finished", "run_settled"]);

/**
 * The parts of the page: `wanted` is the number of the event to show, `pick` shows an event, `show` shows the page.
 * @typedef {{trace: Trace, log: EventLog, head: ReturnType<typeof runHead>, list: ReturnType<typeof events>,
 *   chart: ReturnType<typeof timeline>, books: ReturnType<typeof account>, talk: ReturnType<typeof conversation>,
 *   panels: ReturnType<typeof tabs>, wanted: number | null, pick: (seq: number) => void, show: () => void}} All
 */

/**
 * Follows the run.
 * @param {Api.Run} run
 * @param {All} all
 * @param {AbortSignal} signal
 */
function feed(run, all, signal) {
  const { trace, log, head, list, chart, books, talk } = all;
  let jumpTo = all.wanted;
  /** @type {RunStanding | null} */
  let changes = null;
  /** @type {RunStanding | null} */
  let shown = null;
  let isNews = false;
  const take = (/** @type {Api.RunItem} */ item) => {
    if (item.type === "cancel_reply") return;
    if (item.type === "delta" || item.type === "text_lost") {
      log.stream(item);
      return;
    }
    log.add(item, trace.add(item));
    changes = standing(changes, item);
    isNews ||= NEWS.has(item.type);
  };
  const after = () => {
    all.show();
    list.changed();
    chart.changed();
    if (changes && changes !== shown) head.changed(changes);
    shown = changes;
    if (isNews) books.look();
    if (isNews && all.panels.shown() === 1) talk.load();
    isNews = false;
    if (jumpTo && log.placeOf(jumpTo) >= 0) {
      const seq = jumpTo;
      jumpTo = null;
      all.pick(seq);
    } else if (jumpTo && trace.isSettled) {
      list.jump(jumpTo);
      jumpTo = null;
    }
  };
  follow(`/v1/runs/${part(run.run_id)}/events`, {
    query: { aside: true },
    onItems: intake(take, after, signal),
    isLast: (item) => item.type === "run_settled",
    onEnd: (problem) => { if (problem) announce(problem.message); },
    signal,
  });
}

/** Puts the selected event into the address, so that it can be shared. */
function remember(/** @type {string} */ run, /** @type {number} */ seq) {
  history.replaceState(null, "", `#/run/${part(run)}?seq=${seq}`);
}

/**
 * The standing of a run after a fact. The fact itself has it.
 * @param {RunStanding | null} before the standing before the fact
 * @param {Api.Fact} fact
 * @returns {RunStanding | null}
 */
export function standing(before, fact) {
  if (!fact.standing) return before;
  const { state, phase = null, force = null } = fact.standing;
  const end = fact.type === "run_settled" ? { outcome: fact.outcome, ended_at: fact.at.wall } : null;
  if (!end && before?.state === state && before.phase === phase && before.force === force) return before;
  return { ...before, state, phase, force, ...end };
}
