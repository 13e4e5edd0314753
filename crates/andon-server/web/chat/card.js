// A tool call as a card: its arguments, its approval, its live output and its result.
//
// 1. An approval is for the arguments that are shown: their digest is sent with it.
// 2. A press shows at once; its effect shows when the server reports it.
// 3. If a focused control disappears, the card gets the focus.
// 4. Only the end of a tool's output is shown, with a note of how much is missing. Both are counted in characters as they were written: a
//    hidden character is shown as several.

import { decide, may, serverNow, stopCall, troubleOf } from "../api.js";
import { copyButton } from "../copy.js";
import { fill, h, write } from "../dom.js";
import { textOf } from "./fold.js";
import { revealed, revealedFrom } from "./inline.js";
import { longText } from "../long.js";
import { pretty } from "./pretty.js";
import { REFUSED } from "../runwords.js";
import { hardest, Press, WORDS } from "../stop.js";
import { number, span, VERDICT } from "../words.js";

const FOLD_ABOVE = 240;

/** One call's card. */
export class Card {
  /**
   * @param {{id: string, isStopping: boolean, state: string}} answer the run that the call belongs to
   * @param {CallPart} part
   */
  constructor(answer, part) {
    this.answer = answer;
    this.part = part;
    this.press = new Press();
    /**
     * What is shown so far: `over` and `result` are verdicts, `output` counts all output, `size` what is shown of it, and `sizes` has the
     * size of each text node.
     * @type {{edition: number, pieces: number, isOpen?: boolean, stage: string | null, over?: string | null, result?: string | null,
     *   output: number, size: number, sizes: number[]}}
     */
    this.shown = { edition: -1, pieces: 0, stage: null, output: 0, size: 0, sizes: [] };
    this.name = h("b", { class: "mono" });
    this.verdict = h("span", { class: "state" });
    this.time = h("span", { class: "soft small number" });
    this.stop = h("button", { type: "button", class: "stop small", hidden: true, onclick: () => this.stopIt() }, "Stop");
    this.arguments = h("div", { class: "arguments" });
    this.ask = h("div", { class: "ask-yes", hidden: true });
    this.output = h("pre", { class: "output", tabindex: "0", role: "region", "aria-label": "Live output", dir: "ltr" });
    this.output.hidden = true;
    this.gone = h("p", { class: "soft small", hidden: true });
    this.result = h("div", { class: "result" });
    this.problem = h("p", { class: "problem small", role: "alert" });
    this.element = h("section", { class: "call card", "data-call": part.id, "aria-label": "Tool call", tabindex: "-1" },
      h("header", null, this.name, this.verdict, this.time, h("span", { class: "space" }), this.stop),
      this.arguments, this.ask, this.gone, this.output, this.result, this.problem);
    this.update();
  }

  /** The stage of the call. When the run has stalled, its calls have stopped and cannot be approved. */
  get stage() {
    const { part, answer } = this;
    return answer.state === "stalled" && part.stage !== "over" ? "stalled" : part.stage;
  }

  /** Draws what has changed. */
  update() {
    const { part, element, shown } = this;
    // A run may have thousands of calls, and most have ended and do not change.
    if (part.stage === "over" && shown.over === part.verdict) return;
    if (part.stage === "over") shown.over = part.verdict;
    write(this.name, part.tool || "tool");
    element.setAttribute("aria-label", `Tool call ${part.tool}`);
    element.dataset.stage = this.stage;
    this.updateArguments();
    if (this.stage !== this.shown.stage) this.updateStage();
    this.updateVerdict();
    this.updateOutput();
    this.updateStop();
    this.tick();
  }

  /** Updates the duration while it runs. */
  tick() {
    const { part } = this;
    if (this.stage === "runs" && part.startedAt) {
      write(this.time, span(Math.max(0, serverNow() - Date.parse(part.startedAt.wall))).replace(/\.\d s$/, " s"));
    } else write(this.time, part.took === null ? "" : span(part.took));
  }

  updateArguments() {
    const { part, shown } = this;
    if (shown.edition === part.edition && shown.pieces === part.pieces.length && shown.isOpen === part.isOpen) return;
    Object.assign(shown, { edition: part.edition, pieces: part.pieces.length, isOpen: part.isOpen });
    const text = part.isOpen ? textOf(part) : pretty(textOf(part));
    const isLong = text.length > FOLD_ABOVE || text.split("\n", 12).length > 11;
    // Arguments that need approval are shown in full.
    const body = exactly(text, { name: "Copy arguments", short: part.digest ? Infinity : undefined });
    if (!isLong || part.isOpen || part.digest) fill(this.arguments, body);
    else fill(this.arguments, h("details", null, h("summary", null, `Arguments (${number(text.length)} characters)`), body));
  }

  /** Takes over the focus from a control that disappears (invariant 3). */
  leave(/** @type {HTMLElement} */ place) {
    if (place.contains(document.activeElement)) this.element.focus({ preventScroll: true });
  }

  /* Approval. */

  updateStage() {
    const { stage, ask } = this;
    const waits = stage === "waits";
    this.shown.stage = stage;
    if (!waits) this.leave(ask);
    ask.hidden = !waits;
    if (!waits) {
      fill(ask);
      return;
    }
    this.shown.edition = -1;
    this.updateArguments();
    if (!may("run:create")) {
      fill(ask, h("p", null, "This call needs approval. Your key cannot give it: that needs the scope run:create."));
      return;
    }
    const why = h("input", { type: "text", placeholder: "Reason (shown to the model)", "aria-label": "Reason for denying", maxlength: "500",
      onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); why.blur(); } } });
    const yes = h("button", { type: "button", class: "strong", onclick: () => this.decide("approve") }, "Approve");
    const no = h("button", { type: "button", class: "stop", onclick: () => this.decide("deny", why.value.trim()) }, "Deny");
    fill(ask, h("p", null, "This call needs approval. Approve it with exactly these arguments?"),
      h("div", { class: "answers" }, yes, no, why));
  }

  /**
   * @param {"approve" | "deny"} decision
   * @param {string} [why]
   */
  async decide(decision, why) {
    const { part, ask, problem } = this;
    fill(problem);
    /** @type {NodeListOf<HTMLButtonElement | HTMLInputElement>} */
    const controls = ask.querySelectorAll("button, input");
    this.leave(ask);
    for (const control of controls) control.disabled = true;
    try {
      await decide(this.answer.id, part.id, decision, part.digest ?? undefined, why || undefined);
    } catch (error) {
      for (const control of controls) control.disabled = false;
      fill(problem, troubleOf(error).message);
    }
  }

  /* The result. */

  updateVerdict() {
    const { part, verdict } = this;
    const [state, words] = callState(part, this.stage, this.answer.isStopping);
    write(verdict, words);
    verdict.dataset.state = state;
    if (state === "failed") verdict.dataset.outcome = state;
    if (part.verdict) this.element.dataset.verdict = part.verdict;
    if (part.stage !== "over" || this.shown.result === part.verdict) return;
    this.shown.result = part.verdict;
    const said = part.result?.content ?? [];
    const text = said.map((content) => ("text" in content ? content.text : `[${content.media_type} at ${content.reference}]`)).join("\n");
    const leaked = [part.remains?.unended, ...(part.remains?.leaked ?? [])].filter(Boolean);
    const notes = [...leaked.map((name) => `Leaked: ${name}`), ...(part.remains?.notes ?? [])];
    const body = text && exactly(text, { name: "Copy result" });
    const isFolded = text.length > FOLD_ABOVE * 4;
    fill(this.result, body && (isFolded ? h("details", { open: true }, h("summary", null, "Result"), body) : body),
      notes.map((note) => h("p", { class: "small soft" }, note)));
  }

  updateOutput() {
    const { part, output, shown, gone } = this;
    const total = part.dropped + part.outputSize;
    // The live output is usually part of the result.
    const isSaid = part.stage === "over" && isWithin(part);
    output.hidden = total === 0 || isSaid;
    if (!output.hidden && total !== shown.output) this.appendOutput(total);
    const missing = shown.output - shown.size;
    gone.hidden = output.hidden || missing === 0;
    if (missing) write(gone, `The first ${number(missing)} characters are not shown here; the run’s page has all of them.`);
  }

  /** Appends what is new of the output, and removes the oldest text nodes that are no longer kept (invariant 4). */
  appendOutput(/** @type {number} */ total) {
    const { part, output, shown } = this;
    const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 24;
    const text = part.output.join("");
    const fresh = Math.min(total - shown.output, text.length);
    if (fresh === text.length) {
      fill(output);
      Object.assign(shown, { size: 0, sizes: [] });
    }
    output.append(revealedFrom(text, text.length - fresh));
    shown.sizes.push(fresh);
    shown.size += fresh;
    while (shown.sizes.length > 1 && shown.size - shown.sizes[0] >= text.length) {
      shown.size -= shown.sizes.shift() ?? 0;
      output.firstChild?.remove();
    }
    shown.output = total;
    if (isAtEnd) output.scrollTop = output.scrollHeight;
  }

  /* Its Stop button. */

  updateStop() {
    const { part, press, stop } = this;
    press.take({ state: part.stage === "over" ? "settled" : "running", force: hardest(...part.requests.map(({ force }) => force)) });
    const isRunning = this.stage === "runs";
    if (!isRunning) this.leave(stop);
    stop.hidden = !isRunning || !may("run:cancel");
    const { next } = press;
    if (next === "graceful") delete stop.dataset.pressed;
    else stop.dataset.pressed = next === "none" ? "now" : "graceful";
    write(stop, WORDS.call[next]);
    stop.setAttribute("aria-label", `${stop.textContent}: ${part.tool}`);
  }

  stopIt() {
    const { answer, part, press, problem } = this;
    press.send((force) => stopCall(answer.id, part.id, { force }), () => {
      this.updateStop();
      fill(problem, press.words);
    });
  }
}

/**
 * A text in monospace with a Copy button. It is copied as it was written, not as it is shown.
 * @param {string} text
 * @param {{name: string, short?: number}} how `short`: how many characters are shown at first
 */
function exactly(text, { name, short }) {
  const body = longText(text, { short, drawn: revealed });
  body.dir = "ltr";
  const copy = copyButton("Copy", () => text);
  copy.classList.add("plain", "copy");
  copy.setAttribute("aria-label", name);
  return h("div", { class: "within" }, h("div", { class: "mono block" }, body), copy);
}

/** Whether all live output of a call is in its result too. */
function isWithin(/** @type {CallPart} */ { output, dropped, result }) {
  if (dropped) return false;
  const shown = output.join("").trim();
  return (result?.content ?? []).some((content) => "text" in content && content.text.includes(shown));
}

/**
 * The state of a call: the one that gives it its colour, and words.
 * @param {CallPart} part
 * @param {string} stage
 * @param {boolean} isStopping
 */
function callState(part, stage, isStopping) {
  const { verdict, why, result, approval } = part;
  if (stage === "over") {
    if (why) return ["cancelling", `not run: ${REFUSED[why] ?? why}`];
    if (verdict === "panicked") return ["failed", "crashed"];
    if (verdict === "finished" && result?.status === "error") return ["failed", "failed"];
    return [verdict === "finished" ? "settled" : "cancelling", VERDICT[verdict ?? ""] ?? verdict];
  }
  if (stage === "waits") return ["waiting", "needs approval"];
  if (stage === "stalled") return ["stalled", part.stage === "runs" ? "told to stop" : "not started"];
  if (stage === "runs") return isStopping || part.requests.length ? ["cancelling", "stopping"] : ["running", "running"];
  if (approval?.verdict === "denied") return ["cancelling", "denied"];
  return ["queued", stage === "written" ? "being written" : "not started yet"];
}
