// The board: every run that you may see, live.
//
// 1. It draws at most once per frame and sorts at most a few times per second, however much happens.
// 2. Old data is marked as old: when the feed breaks, rows stay, and no clock keeps ticking.
// 3. The filter and the order are in the address.

import { address, isKnownToProgram, key, may } from "../api.js";
import { controls } from "./filter.js";
import { cord } from "./cord.js";
import { byId, everyFrame, fill, h, write } from "../dom.js";
import { follow } from "../feed.js";
import { journalBar } from "./journal.js";
import { lineBar } from "./line.js";
import { Look } from "./look.js";
import { Roster } from "./roster.js";
import { Rows } from "./rows.js";
import { strip } from "./strip.js";
import { number } from "../words.js";

/** The least time between two sorts, in milliseconds. */
const ORDER = 250;

/** @type {ViewModule["default"]} */
export default function view(place, { query }, signal) {
  const roster = new Roster();
  const look = new Look(query);
  const chart = strip();
  const empty = h("div", { class: "empty" });
  const fresh = h("button", { type: "button", class: "fresh", hidden: true, "data-fresh": true });
  const these = h("button", { type: "button", class: "stop these", hidden: true, "data-these": true });
  const draw = everyFrame(() => drawAll(board), signal);
  const rows = new Rows(look, roster, {
    mayStop: may("run:cancel"), mayAnswer: may("run:create"), fresh, signal, redraw: draw,
    onSort: () => changed(board), free: () => { board.needsOrder = true; draw(); },
  });
  const filter = controls(look, roster, () => changed(board));
  fresh.addEventListener("click", () => { rows.toTop(); reorder(board); draw(); });
  these.addEventListener("click", async () => {
    const { stopThese } = await import("./these.js");
    if (!signal.aborted) stopThese(look, roster, signal, draw);
  });
  rows.element.hidden = true;
  const line = lineBar(roster, signal);
  const bar = h("div", { class: "bar" }, line.state, cord(roster, signal));
  filter.element.append(these);
  const folds = h("div", { class: "folds" }, filter.fold, chart.fold);
  const upper = h("div", { class: "upper" }, journalBar(roster, signal), line.holds, chart.element, folds, filter.element);
  const name = h("h1", { class: "unseen" }, "Board");
  fill(place, h("div", { class: "board" }, name, bar, upper, empty, rows.element));
  /** @type {Board} */
  const board = {
    place, roster, look, chart, empty, fresh, these, signal, draw, rows, controls: filter, bar, upper, needsOrder: true, ordered: 0, waits: 0,
  };
  measured(board);
  roster.watch((changes) => heard(board, changes), signal);
  follow("/v1/board", {
    signal, onItems: (items) => roster.apply(items), onBreak: () => roster.broke(),
    onEnd: (problem) => { if (problem) refused(board, problem); },
  });
}

/** Measures again whenever what is above the rows changes its height. */
function measured(/** @type {Board} */ board) {
  const [top, banner] = [byId("top"), byId("banner")];
  const sizes = new ResizeObserver(() => {
    const style = board.rows.element.parentElement?.style;
    const above = top.offsetHeight + banner.offsetHeight;
    style?.setProperty("--top", `${above}px`);
    style?.setProperty("--under", `${above + board.bar.offsetHeight}px`);
    board.rows.measure();
  });
  for (const element of [top, banner, board.bar, board.upper, board.empty]) sizes.observe(element);
  board.signal.addEventListener("abort", () => sizes.disconnect(), { once: true });
}

/** Takes changes from the feed. */
function heard(/** @type {Board} */ board, /** @type {Changes} */ changes) {
  const { roster, chart } = board;
  if (changes.has("rows") || changes.has("ready") || changes.has("second")) board.needsOrder = true;
  if (changes.has("second") || changes.has("ready")) {
    chart.draw(roster.past, roster.now());
    board.controls.update();
  }
  // Loaded in advance, because the server may be slow when it is needed.
  if (changes.has("ready")) import("./these.js").catch(() => {});
  if (changes.has("second") || changes.has("ready") || changes.has("old")) say(board);
  if (changes.has("old")) board.place.firstElementChild?.classList.toggle("old", roster.isOld);
  if (changes.has("rows")) board.rows.showColumns(columnsOf(roster));
  board.draw();
}

const say = (/** @type {Board} */ { chart, roster }) => chart.say(roster.past, roster.now(), roster.live().length, roster.isOld);

/** There are columns for prices and tenants only if the server sends them. */
function columnsOf(/** @type {Roster} */ roster) {
  let [hasCost, hasTenants] = [false, false];
  for (const { row } of roster.entries.values()) {
    hasCost ||= row.cost !== undefined;
    hasTenants ||= row.tenant !== undefined;
  }
  return { hasCost, hasTenants };
}

/** The filter or the order has changed. */
function changed(/** @type {Board} */ board) {
  history.replaceState(null, "", board.look.address());
  board.rows.sorted();
  reorder(board);
  board.draw();
}

function reorder(/** @type {Board} */ board) {
  const { look, roster, controls } = board;
  look.update(roster, false);
  // The counts change together with the rows.
  controls.update();
  say(board);
  board.ordered = performance.now();
  board.needsOrder = false;
}

function drawAll(/** @type {Board} */ board) {
  const { rows, look, roster, fresh, these } = board;
  if (board.needsOrder) putInOrder(board);
  rows.draw();
  rows.offerTab();
  fresh.hidden = look.fresh === 0;
  write(fresh, `${number(look.fresh)} new`);
  these.hidden = !look.isNarrow || !may("run:cancel");
  if (!these.hidden) {
    const { length } = look.meant(roster);
    these.disabled = length === 0;
    write(these, length === 1 ? "Stop this run…" : `Stop these ${number(length)} runs…`);
  }
  showEmpty(board);
}

/** Sorts the rows, unless that was just done or someone is aiming at one (invariant 1). */
function putInOrder(/** @type {Board} */ board) {
  const { rows, look, roster } = board;
  if (rows.isKept()) {
    look.update(roster, true);
    board.needsOrder = false;
    return;
  }
  const wait = board.ordered + ORDER - performance.now();
  if (wait <= 0) return reorder(board);
  if (board.waits) return;
  board.waits = setTimeout(() => { board.waits = 0; board.draw(); }, wait);
}

/** Says what to do if there is nothing to show. */
function showEmpty(/** @type {Board} */ board) {
  const { empty, look, roster, rows } = board;
  const isEmpty = look.shown.length === 0;
  if (rows.element.hidden !== isEmpty) {
    rows.element.hidden = isEmpty;
    empty.hidden = !isEmpty;
    rows.measure();
  }
  const kind = !isEmpty ? "none" : !roster.isReady ? "waits" : look.isNarrow ? "narrow" : "empty";
  if (empty.dataset.kind === kind) return;
  empty.dataset.kind = kind;
  if (kind === "waits") fill(empty, "Loading…");
  if (kind === "narrow") fill(empty, "No runs match this filter.");
  if (kind === "empty") fill(empty, nothingRuns());
}

function nothingRuns() {
  const url = address("/v1/runs");
  const shown = key.get() ? ` -H "authorization: Bearer $ANDON_KEY"` : "";
  const line = `curl ${url}${shown} -H 'content-type: application/json' -d '{"app":"practice","input":"tell me a long story"}'`;
  const to = (/** @type {string} */ href, /** @type {string} */ text) => h("a", { href }, text);
  const ways = [to("#/chat", "Chat with an agent"), ", or see the ", to("#/runs", "history"), "."];
  const nothing = h("p", null, "Nothing is running. ", ways);
  // What a terminal sends has nothing by which another program knows us.
  if (isKnownToProgram()) return [nothing];
  return [nothing, h("p", null, "From a terminal:"), h("pre", { class: "command" }, line)];
}

/** The feed was refused permanently. */
function refused(/** @type {Board} */ board, /** @type {{message: string, status?: number}} */ problem) {
  const isBlind = problem.status === 403;
  const listed = ["Past runs are in the ", h("a", { href: "#/runs" }, "history"), "."];
  const way = isBlind ? "Use a key with the scope run:read." : listed;
  board.rows.element.hidden = true;
  board.upper.hidden = true;
  board.empty.hidden = false;
  board.empty.dataset.kind = "refused";
  fill(board.empty, h("p", { class: "problem", role: "alert" }, problem.message), h("p", null, way));
}
