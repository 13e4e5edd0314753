// The head of a run's page: what it is, its state, and its Stop button.
//
// 1. A press on Stop shows at once. The run is shown as stopped when it has settled, and not before.
// 2. What the button says and does is defined in `stop.js`, as everywhere on the page.
// 3. A press that did not reach the server is sent again when the server is back. Until then the button says that it was not sent.
// 4. A stalled run can be stopped like any other, and stays stalled until it has settled.
// 5. When the run settles, the link to the receipt takes over the focus from the button.

import { may, part, serverIsGone, stopRun, userWord } from "../api.js";
import { announce, fill, h, set, write } from "../dom.js";
import { dayAndTime, doing, sentence, shownState, span, stalledWords, timeOfDay } from "../words.js";
import { ending } from "../runwords.js";
import { Press, WORDS } from "../stop.js";
import { oneLine } from "./facts.js";

/**
 * @param {Api.Run} run
 * @param {{now: () => number, signal: AbortSignal}} how `now` returns the time since the run started, in milliseconds
 */
export function runHead(run, { now, signal }) {
  const state = h("span", { class: "state" });
  const took = h("dd", { class: "number" });
  const times = h("dd");
  const outcome = h("p", { class: "outcome", hidden: true });
  const stalled = h("p", { class: "stalled", role: "status" });
  /** @type {{run: ShownRun}} */
  const view = { run };
  const receipt = h("a", { class: "button", href: `#/run/${part(run.run_id)}/receipt` }, "Receipt");
  const showStalled = (/** @type {boolean} */ isStopping) => {
    const isStalled = shownState(view.run) === "stalled";
    write(stalled, isStalled ? stalledWords(view.run.stalled, isStopping) : "");
  };
  const stop = stopButton(run.run_id, receipt, showStalled);
  const chat = `#/chat/${part(run.app)}/${part(run.session)}?user=${part(run.user)}`;
  const fact = (/** @type {string} */ name, /** @type {Node[]} */ ...what) => h("div", null, h("dt", null, name), what);
  const element = h("header", { class: "runhead", "data-run": run.run_id },
    h("div", { class: "runtitle" }, h("h1", null, h("bdi", null, oneLine(run.title) || "Run without a prompt")),
      h("div", { class: "acts" }, state, stop.element, receipt)),
    stop.said, stalled, outcome,
    h("dl", { class: "facts" },
      fact("Agent", h("dd", null, h("bdi", null, run.app))), fact("User", h("dd", { title: run.user }, h("bdi", null, userWord(run.user, run.tenant)))),
      fact("Session", h("dd", null, h("a", { href: chat }, h("bdi", null, run.session)))),
      fact("When", times), fact("Duration", took), fact("Run", h("dd", null, h("code", null, run.run_id)))));
  const show = () => {
    const isSettled = view.run.state === "settled";
    set(state, "data-state", shownState(view.run));
    set(state, "data-outcome", view.run.outcome?.kind);
    write(state, doing(view.run));
    write(took, span(now()));
    const { accepted_at: from, settled_at: settled, ended_at: ended } = view.run;
    const to = settled ?? ended;
    fill(times, time(from, dayAndTime(from)), to ? [" – ", time(to, timeOfDay(to))] : null);
    outcome.hidden = !isSettled;
    write(outcome, isSettled ? `${sentence(ending(view.run.outcome))}.` : "");
    stop.changed(view.run);
  };
  show();
  const ticking = setInterval(() => { if (view.run.state !== "settled" && !serverIsGone()) write(took, span(now())); }, 100);
  signal.addEventListener("abort", () => clearInterval(ticking), { once: true });
  return {
    element,
    /** Applies changes to the run. */
    changed(/** @type {Partial<ShownRun>} */ more) {
      const wasSettled = view.run.state === "settled";
      view.run = { ...view.run, ...more };
      show();
      if (!wasSettled && view.run.state === "settled") announce(`The run has settled: ${ending(view.run.outcome)}.`);
    },
  };
}

const time = (/** @type {string} */ wall, /** @type {string} */ words) => h("time", { datetime: wall, title: wall }, words);

/**
 * Stop, and then stop now (invariants 1 to 5).
 * @param {string} run
 * @param {HTMLElement} after gets the focus when the button disappears
 * @param {(isStopping: boolean) => void} onShow called whenever something may have changed
 */
function stopButton(run, after, onShow) {
  const said = h("p", { class: "problem", role: "alert" });
  const element = h("button", { type: "button", class: "stop", "data-stop": run }, "Stop");
  const press = new Press();
  const show = () => {
    const { isUnsent, next, words } = press;
    write(element, WORDS.run[isUnsent ? "unsent" : next]);
    set(element, "data-pressed", next !== "graceful" || null);
    // Not disabled, because a disabled button would lose the focus.
    set(element, "aria-disabled", next === "none" ? "true" : null);
    write(said, words);
    onShow(press.isStopping);
  };
  element.addEventListener("click", () => press.send((force) => stopRun(run, { force }), (answer) => {
    show();
    if (answer?.reply === "too_late") write(said, "Too late: the run had already ended.");
  }));
  /** Takes the current state of the run. */
  const changed = (/** @type {ShownRun} */ is) => {
    press.take(is);
    const isSettled = is.state === "settled";
    if (isSettled && element === document.activeElement) after.focus({ preventScroll: true });
    element.hidden = isSettled || !may("run:cancel");
    show();
  };
  return { element, said, changed };
}
