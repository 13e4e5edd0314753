// One run in the chat: the prompt, the answer as it arrives, and how it ended.
//
// 1. What is shown is folded from the feed, so a reload and a second tab show the same. Only whether the run has stalled is not in
//    the feed.
// 2. A run is shown as cut once it has settled as cut. Until then a stop is shown as requested.
// 3. A part is drawn once, and after that only what is new in it. If there are very many parts, some are drawn in each frame.

import { may, nameWord, serverIsGone } from "../api.js";
import { Card } from "./card.js";
import { copyButton } from "../copy.js";
import { everyFrame, fill, h, write } from "../dom.js";
import { fold, learn, newRun, textOf, usageOf } from "./fold.js";
import { longText } from "../long.js";
import { safeAddress } from "./inline.js";
import { Markdown } from "./markdown.js";
import { Press } from "../stop.js";
import { dayAndTime, figure, figureInFull, REASON, shownState, span, stalledWords, timeOfDay } from "../words.js";

/** How long new parts are drawn in one frame, in milliseconds. */
const SHARE = 12;
/** How many running tools are named. */
const TOOLS_NAMED = 3;

/** @typedef {{element: HTMLElement, update: () => void, tick?: () => void}} Drawer how a part is drawn; `tick` updates its times */

/** A run on the screen. */
export class Answer {
  /**
   * @param {string} id
   * @param {{title?: string, wasOver?: boolean, signal: AbortSignal, onStop: (answer: Answer) => void}} more `wasOver`: it is
   *   known to have ended before its feed says so
   */
  constructor(id, { title = "", wasOver = false, signal, onStop }) {
    this.run = newRun(id);
    this.wasOver = wasOver;
    /** Whether it was in progress when we first saw it. */
    this.wasLive = false;
    /** Whether the server refused the prompt. */
    this.isRefused = false;
    /** Whether a stop reached the server before the prompt did. */
    this.isAhead = false;
    this.signal = signal;
    this.press = new Press();
    /** @type {string | null} why the journal does not accept its end, if it does not */
    this.stalled = null;
    /** @type {string | null} something that is not in the feed */
    this.said = null;
    this.hasPrompt = false;
    this.hasEnd = false;
    this.footFor = "";
    /** @type {Map<ChatPart, Drawer>} */
    this.drawers = new Map();
    this.later = everyFrame(() => this.draw(), signal);
    this.before = h("div", { class: "before soft" });
    this.prompt = h("div", { class: "prompt", dir: "auto" }, longText(title));
    this.parts = h("div", { class: "parts" });
    this.words = h("span");
    this.back = h("button", { type: "button", class: "stop", onclick: () => onStop(this) }, "Stop");
    this.doing = h("p", { class: "doing soft" }, this.words, this.back);
    this.mark = h("div", { class: "mark" });
    this.foot = h("footer", { class: "soft small" });
    this.copy = quietCopy("Copy answer", () => answerText(this.run));
    const asked = h("div", { class: "asked" }, quietCopy("Copy prompt", () => promptText(this.run) || title), this.prompt);
    this.element = h("article", { class: "run", "data-run": id, tabindex: "-1" },
      h("h2", { class: "unseen" }, "Prompt and answer"), this.before, asked, this.parts, this.doing, this.mark, this.foot);
    this.draw();
  }

  get id() { return this.run.id; }
  get isOver() { return this.wasOver || this.run.state === "settled"; }
  /** Its state for display. */
  get state() { return shownState({ state: this.run.state, stalled: this.stalled }); }
  /** Whether it is being stopped, by anyone. */
  get isStopping() { return !this.isOver && this.press.isStopping; }

  /** The server has given it another id than we chose. */
  rename(/** @type {string} */ id) {
    this.run.id = id;
    this.element.dataset.run = id;
  }

  /** Takes items of the feed. `now` is given for items that are live. */
  take(/** @type {Api.RunItem[]} */ items, /** @type {number | undefined} */ now) {
    for (const item of items) fold(this.run, item, now);
    this.press.take(this.run);
    this.draw();
  }

  /** Takes the receipt, which has what was learned after the end. */
  learn(/** @type {Api.Receipt} */ receipt) {
    learn(this.run, receipt);
    if (this.hasEnd) this.drawEnd();
    this.draw();
  }

  /** Shows something that is not in the feed, such as that the prompt is being sent. */
  say(/** @type {string | null} */ words) {
    this.said = words;
    this.drawDoing();
  }

  draw() {
    const { run, element } = this;
    element.dataset.state = this.state;
    element.setAttribute("aria-busy", String(run.state !== "settled"));
    if (run.prompt && !this.hasPrompt) this.drawPrompt();
    this.drawParts();
    this.drawDoing();
    if (run.outcome && !this.hasEnd) this.drawEnd();
    this.drawFoot();
  }

  drawPrompt() {
    this.hasPrompt = true;
    const nodes = (this.run.prompt ?? []).map((part) => (part.type === "image" ? imageLink(part.media_type, part.reference) : longText("text" in part ? part.text : "")));
    fill(this.prompt, nodes);
    if (this.run.before.length) fill(this.before, broughtAlong(this.run.before));
    if (this.run.acceptedAt) this.prompt.title = dayAndTime(this.run.acceptedAt);
  }

  drawParts() {
    const { run, parts, drawers } = this;
    const end = performance.now() + SHARE;
    /** @type {HTMLElement | null} */
    let last = null;
    for (const part of run.parts) {
      let drawer = drawers.get(part);
      if (!drawer && performance.now() > end) {
        this.later();
        break;
      }
      if (!drawer) {
        drawer = /** @type {Record<string, (part: ChatPart, answer: Answer) => Drawer>} */ (DRAW)[part.kind](part, this);
        drawers.set(part, drawer);
      }
      drawer.update();
      /** @type {Node | null} */
      const next = last ? last.nextSibling : parts.firstChild;
      if (next !== drawer.element) parts.insertBefore(drawer.element, next);
      last = drawer.element;
    }
    if (drawers.size === run.parts.length) return;
    // Remove what was shown but is not on record.
    const kept = new Set(run.parts);
    for (const [part, { element }] of drawers) {
      if (kept.has(part)) continue;
      element.remove();
      drawers.delete(part);
    }
  }

  /** Shows what is going on while there is nothing else to see. */
  drawDoing() {
    const { run, doing } = this;
    const words = doingWords(this);
    write(this.words, words);
    doing.hidden = !words;
    doing.classList.toggle("problem", this.state === "stalled");
    const hasStop = run.state === "queued" && !this.said && !this.press.force && may("run:cancel");
    // Keep the focus in this run.
    if (!hasStop && this.back === document.activeElement) this.element.focus({ preventScroll: true });
    this.back.hidden = !hasStop;
  }

  /* The end. */

  drawEnd() {
    const { run, mark, element } = this;
    const { outcome } = run;
    if (!outcome) return;
    this.hasEnd = true;
    element.dataset.outcome = outcome.kind;
    if (outcome.kind === "cancelled") element.dataset.cut = outcome.reason;
    const words = endWords(outcome, run);
    const isWhole = outcome.kind === "completed";
    const link = isWhole ? null : h("a", { href: `#/run/${encodeURIComponent(run.id)}/receipt` }, "Receipt");
    fill(mark, words && h("p", { class: "end", "data-end": outcome.kind }, h("span", null, words), " ", link));
  }

  drawFoot() {
    const { run, foot } = this;
    const usage = usageOf(run);
    const hasText = run.parts.some(({ kind }) => kind === "text");
    const wanted = `${run.usage.length} ${run.state} ${hasText}`;
    if (this.footFor === wanted) return;
    this.footFor = wanted;
    const tokens = usage && [
      h("span", { title: figureInFull(usage.input) }, `${figure(usage.input)} tokens in`), " · ",
      h("span", { title: figureInFull(usage.output) }, `${figure(usage.output)} out`), " · "];
    const time = run.settledAt ? [h("span", { title: dayAndTime(run.settledAt) }, timeOfDay(run.settledAt)), " · "] : null;
    const link = run.acceptedAt && h("a", { href: `#/run/${encodeURIComponent(run.id)}` }, "Run details");
    fill(foot, time, tokens, link, hasText && [" · ", this.copy]);
  }

  /** Updates running times. */
  tick() {
    for (const { tick } of this.drawers.values()) tick?.();
  }
}

function doingWords(/** @type {Answer} */ { said, run, state, stalled, isStopping, press }) {
  if (said) return said;
  if (!run.acceptedAt || run.state === "settled") return "";
  if (press.isUnsent) return "Stop not sent yet: the server is not responding.";
  if (serverIsGone()) return "The server is not responding: current progress is unknown.";
  if (state === "stalled") return stalledWords(stalled, isStopping);
  if (isStopping) return "Stopping…";
  if (run.force) return "Stopping after this turn.";
  if (run.state === "queued") return "Queued…";
  return isSeen(run.parts.at(-1)) ? "" : stepWords(run);
}

/** Whether the last part itself shows that something is going on. */
function isSeen(/** @type {ChatPart | undefined} */ last) {
  if (last?.kind === "again") return !last.isOver;
  if (last === undefined || last.kind === "image") return false;
  return last.isOpen || (last.kind === "call" && (last.stage === "runs" || last.stage === "waits"));
}

/** @type {Record<string, string>} what the run is waiting for, by its phase */
const STEP = { hook: "Running a hook…", model: "Waiting for the model…", backoff: "Waiting to retry…", waiting: "Waiting for approval…" };

function stepWords(/** @type {ChatRun} */ { openCalls, phase }) {
  const running = phase === "tools" ? openCalls.filter(({ stage }) => stage === "runs").map(({ tool }) => tool) : [];
  if (running.length) return `Running ${running.slice(0, TOOLS_NAMED).join(", ")}${running.length > TOOLS_NAMED ? " and others" : ""}…`;
  return STEP[phase ?? ""] ?? "Working…";
}

function endWords(/** @type {Api.Outcome} */ outcome, /** @type {ChatRun} */ { requests, quietTook, settledTook, startedAt, parts, isTextLost }) {
  if (outcome.kind === "failed") return `Failed: ${outcome.message}`;
  const kept = isTextLost ? "The last words that were shown are lost; the rest is kept." : "What was shown is kept.";
  if (outcome.kind === "lost") return `Lost: the server went down during this run. ${kept}`;
  if (outcome.kind === "completed") return COMPLETED[outcome.stop] ?? "";
  const by = requests[0]?.by;
  const isAsked = outcome.reason === "requested" || outcome.reason === "operator";
  const who = isAsked && by ? ` by ${nameWord(by)}` : "";
  const why = isAsked ? "" : `: ${REASON[outcome.reason] ?? outcome.reason}`;
  const where = parts.length ? `Stopped${who}` : `Stopped${who} before it ${startedAt ? "said anything" : "started"}`;
  // From the receipt: the last event was written before the run was on disk.
  const disk = settledTook === null ? "" : `, settled on disk after ${span(settledTook)}`;
  const took = quietTook === null ? "" : `, quiet after ${span(quietTook)}${disk}`;
  return `${where}${why}${took}${isTextLost ? `. ${kept}` : ""}`;
}

/** @type {Record<string, string>} */
const COMPLETED = {
  max_tokens: "The answer reached its token limit.",
  refused: "The model refused to continue.",
};

/** What a prompt brought along: it was said elsewhere, and begins the conversation. */
function broughtAlong(/** @type {Api.Message[]} */ messages) {
  const lines = messages.flatMap(({ role, parts }) => parts.map((part) => h("div", { class: "line", dir: "auto" }, `${SPEAKER[role] ?? role}: `, spoken(part))));
  return h("details", null, h("summary", null, `Started with ${messages.length} earlier ${messages.length === 1 ? "message" : "messages"}`), lines);
}

/** @type {Record<string, string>} */
const SPEAKER = { user: "Person", assistant: "Agent", tool: "Tool" };

function spoken(/** @type {Api.Part} */ part) {
  switch (part.type) {
    case "image": return imageLink(part.media_type, part.reference);
    case "tool_call": return longText(`${part.name} ${part.arguments}`);
    case "tool_result": return longText(part.content.map((piece) => ("text" in piece ? piece.text : "")).join("\n"));
    default: return longText(part.text);
  }
}

/* Copying: the text as it was written, not as it is shown. */

const promptText = (/** @type {ChatRun} */ { prompt }) => (prompt ?? []).map((part) => ("text" in part ? part.text : "")).join("\n");
const answerText = (/** @type {ChatRun} */ { parts }) => parts.filter((part) => part.kind === "text").map(textOf).join("\n\n");

/** A small button that copies. */
function quietCopy(/** @type {string} */ name, /** @type {() => string} */ text) {
  const button = copyButton("Copy", text);
  button.classList.add("plain", "copy");
  button.setAttribute("aria-label", name);
  return button;
}

/* How each kind of part is drawn. */

/** @type {{[Kind in ChatPart["kind"]]: (part: ChatPartOf<Kind>, answer: Answer) => Drawer}} */
const DRAW = {
  text(part, { signal }) {
    const element = h("div", { class: "said" });
    return { element, update: growing(part, new Markdown(element, signal)) };
  },
  thinking(part, { signal }) {
    const body = h("div", { class: "said" });
    const summary = h("summary", null, "Thinking…");
    const grow = growing(part, new Markdown(body, signal));
    const tick = () => write(summary, thoughtWords(part));
    return { element: h("details", { class: "thinking" }, summary, body), update: () => { grow(); tick(); }, tick };
  },
  call(part, answer) {
    const card = new Card(answer, part);
    return { element: card.element, update: () => card.update(), tick: () => card.tick() };
  },
  again(part) {
    const element = h("p", { class: "again small" });
    const why = part.failure?.message ?? "The model could not be reached.";
    const words = () => `${why} ${part.isOver ? "Retried after" : "Retrying in"} ${span(part.delay)}.`;
    return { element, update: () => write(element, words()) };
  },
  image: ({ media, reference }) => ({ element: imageLink(media, reference), update() {} }),
};

/** Draws the new pieces of a text. */
function growing(/** @type {Written} */ part, /** @type {Markdown} */ drawn) {
  let taken = 0;
  let edition = part.edition;
  return () => {
    if (part.edition !== edition) {
      drawn.reset();
      taken = 0;
      edition = part.edition;
    }
    if (taken === part.pieces.length) return;
    drawn.write(taken === 0 ? textOf(part) : part.pieces.slice(taken).join(""));
    taken = part.pieces.length;
  };
}

function thoughtWords(/** @type {ThinkingPart} */ { isOpen, began, took, cut }) {
  if (isOpen) return began === null ? "Thinking…" : `Thinking… ${Math.round((performance.now() - began) / 1000)} s`;
  return `Thought${took === null ? "" : ` for ${span(took)}`}${cut ? " (cut)" : ""}`;
}

/** Nothing is loaded from elsewhere: an image is shown as a link. */
function imageLink(/** @type {string} */ media, /** @type {string} */ reference) {
  const address = safeAddress(reference);
  const words = `Image: ${media}`;
  return address
    ? h("a", { href: address, title: address, rel: "noopener noreferrer", target: "_blank" }, words)
    : h("span", { title: reference.slice(0, 200) }, words);
}
