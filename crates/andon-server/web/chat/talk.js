// A conversation: its runs in order, each with its feed; sending and stopping.
//
// 1. A prompt has a run id before it is sent. Sending it again after a lost connection gives the same run, and it can be stopped
//    before the server has responded.
// 2. A press on Stop shows before it is sent, and is sent again if the server was gone or the page was reloaded. It is sent before a
//    prompt that has not arrived.
// 3. Runs that others start in this session appear by themselves.
// 4. A press on Stop is for the run that was in progress: right after that run's end it does not stop the next one.
// 5. A refused prompt is put back into the input.

import { get, link, may, part, post, Problem, stopRun, troubleOf } from "../api.js";
import { Answer } from "./answer.js";
import { isBack } from "../back.js";
import { announce, h } from "../dom.js";
import { follow } from "../feed.js";
import { callsOf } from "./fold.js";
import { Kept } from "./kept.js";

/** How many runs are loaded at a time. */
const PAGE = 10;
/** How often to check for new runs, in milliseconds. */
const LOOK = 2000;
/** Pieces that arrive this soon after a feed was opened may be from the past, in milliseconds. */
const PAST = 1000;
/** How long after the end of a stopped run, or of another run, a press on Stop was meant for that run, in milliseconds. */
const MEANT = { stopped: 1000, other: 350 };

/**
 * @typedef {import("./kept.js").Prompt} Prompt
 * @typedef {{app: string, user: string, session: string | null, log: HTMLElement, signal: AbortSignal,
 *   onSession: (session: string) => void, onChange: () => void, onProblem: (...words: unknown[]) => void,
 *   onEarlier: (putIn: () => Promise<unknown>) => void, onGiveBack: (text: string) => void,
 *   onSettled: (answer: Answer) => void}} How
 */

export class Talk {
  /** @type {Answer[]} */
  answers = [];
  /** @type {string | undefined} where the earlier runs start */
  before;
  isLooking = false;

  /** @param {How} how */
  constructor(how) {
    this.how = how;
    this.app = how.app;
    this.user = how.user;
    this.session = how.session;
    this.log = how.log;
    this.signal = how.signal;
    /** @type {Set<Answer>} */
    this.sending = new Set();
    /** Until when a press on Stop is too late for the run that it was meant for. */
    this.lateUntil = 0;
    /** @type {Promise<unknown>} resolves when the last prompt has arrived, so that prompts arrive in order */
    this.arrived = Promise.resolve();
    this.earlier = h("button", { type: "button", class: "earlier", onclick: () => this.showEarlier() }, "Show earlier");
    this.earlier.hidden = true;
    this.log.before(this.earlier);
    const now = () => this.look();
    const { signal } = this;
    addEventListener("focus", now, { signal });
    document.addEventListener("visibilitychange", now, { signal });
    link.addEventListener("back", now, { signal });
    const timer = setInterval(now, LOOK);
    signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  }

  /** The run that Stop is for: the oldest that has not ended. */
  get active() { return this.answers.find((answer) => !answer.isOver) ?? null; }

  /* Which runs there are (invariant 3). */

  /** Shows the latest runs. Resolves when they have started to appear. */
  async open() {
    if (!this.session) return;
    const { runs, next } = await this.list();
    this.before = next;
    this.earlier.hidden = !next;
    const drawn = runs.reverse().map((run) => this.add(run));
    this.resume();
    this.how.onChange();
    await Promise.race([Promise.all(drawn), new Promise((done) => { setTimeout(done, 1500); })]);
  }

  /** @param {string} [before] */
  list(before) {
    const { app, user, session, signal } = this;
    return get("/v1/runs", { query: { app, user, session, limit: PAGE, before }, signal });
  }

  async look() {
    // While a prompt is being sent, we cannot tell which run it became.
    if (document.hidden || !this.session || this.sending.size || this.isLooking) return;
    this.isLooking = true;
    try {
      const { runs } = await this.list();
      if (this.sending.size) return;
      const known = new Map(this.answers.map((answer) => [answer.id, answer]));
      for (const run of runs.reverse()) {
        const answer = known.get(run.run_id);
        if (answer) this.stall(answer, run.stalled);
        else if (!this.isOlder(run)) this.add(run);
      }
    } catch { /* The next attempt may work; a missing server is reported elsewhere. */ } finally {
      this.isLooking = false;
    }
  }

  /** Sets why the journal does not accept a run's end, if that is so. */
  stall(/** @type {Answer} */ answer, /** @type {string | null} */ why = null) {
    if (answer.stalled === why) return;
    answer.stalled = why;
    answer.draw();
    if (answer.state === "stalled") announce("The run has stalled: its end cannot be written to the journal.");
  }

  /** Whether a run is older than those that are shown. */
  isOlder(/** @type {Api.Run} */ { accepted_at: at }) {
    const first = this.answers.find(({ run }) => run.acceptedAt)?.run.acceptedAt;
    return Boolean(this.before && first && at < first);
  }

  async showEarlier() {
    this.earlier.disabled = true;
    try {
      const { runs, next } = await this.list(this.before);
      this.before = next;
      this.earlier.hidden = !next;
      this.how.onEarlier(() => Promise.all(runs.map((run) => this.add(run, true))));
    } catch (error) {
      this.how.onProblem(troubleOf(error).message);
    } finally {
      this.earlier.disabled = false;
    }
  }

  /** Adds a run and follows it. Resolves when its first items have arrived. */
  add(/** @type {Api.Run} */ { run_id: id, title, state, force, stalled }, isFirst = false) {
    const wasOver = state === "settled";
    const answer = this.newAnswer(id, title, { isFirst, wasOver });
    answer.wasLive = !wasOver;
    answer.press.take({ force });
    this.stall(answer, stalled);
    return this.follow(answer);
  }

  newAnswer(/** @type {string} */ id, /** @type {string} */ title, { isFirst = false, wasOver = false } = {}) {
    const answer = new Answer(id, { title, wasOver, signal: this.signal, onStop: (it) => this.stop(it) });
    if (isFirst) {
      this.answers.unshift(answer);
      this.log.prepend(answer.element);
    } else {
      this.answers.push(answer);
      this.log.append(answer.element);
    }
    return answer;
  }

  /* Feeds. */

  follow(/** @type {Answer} */ answer, isNew = false) {
    const opened = performance.now();
    return /** @type {Promise<void>} */ (new Promise((drawn) => {
      follow(`/v1/runs/${part(answer.id)}/events`, {
        query: { aside: true },
        signal: this.signal,
        isLast: ({ type }) => type === "run_settled",
        onItems: (items) => {
          const isLive = answer.wasLive && (isNew || performance.now() - opened > PAST);
          answer.said = null;
          answer.take(items, isLive ? performance.now() : undefined);
          if (answer.wasLive) this.tell(answer, items);
          if (answer.run.outcome) this.settled(answer, answer.run.outcome);
          this.how.onChange();
          drawn();
        },
        onEnd: (problem) => {
          if (problem) answer.say(problem.status === 404 ? "This run no longer exists." : problem.message);
          drawn();
        },
      });
    }));
  }

  settled(/** @type {Answer} */ answer, /** @type {Api.Outcome} */ outcome) {
    // A leaked tool may have ended since, and only the receipt says when a stop was on disk.
    const isStop = answer.wasLive && outcome.kind === "cancelled";
    if (isStop || callsOf(answer.run).some(({ verdict }) => verdict === "leaked" || verdict === "detached")) {
      get(`/v1/runs/${part(answer.id)}/receipt`, { signal: this.signal }).then((receipt) => answer.learn(receipt), () => {});
    }
    if (!answer.wasLive) return;
    this.lateUntil = performance.now() + (outcome.kind === "cancelled" ? MEANT.stopped : MEANT.other);
    this.how.onSettled(answer);
  }

  /** Announces starts and ends. */
  tell(/** @type {Answer} */ answer, /** @type {Api.RunItem[]} */ items) {
    for (const item of items) {
      if (item.type === "run_started") announce(`${this.app} is answering.`);
      if (item.type === "approval_requested") {
        const tool = callsOf(answer.run).find(({ id }) => id === item.call)?.tool ?? "A tool";
        announce(`${tool} needs your approval.`);
      }
      if (item.type === "run_settled") announce(ENDED[item.outcome.kind] ?? "The answer has ended.");
    }
  }

  /* Sending (invariants 1 and 5). */

  /**
   * @param {string} text
   * @param {boolean} [isNext] it waits for the run in progress instead of being refused
   */
  send(text, isNext = false) {
    // From here on a press on Stop is meant for this run.
    this.lateUntil = 0;
    const isFirst = !this.session;
    this.session ??= newName();
    /** @type {Prompt} */
    const body = { app: this.app, user: this.user, session: this.session, run_id: newId(), input: text };
    if (isNext) body.when_busy = "queue";
    if (isFirst) this.how.onSession(this.session);
    this.deliver(body);
  }

  /** Sends what had not been sent when the page was reloaded. */
  resume() {
    const { prompts, stops } = this.kept.read();
    for (const body of prompts) {
      if (this.find(body.run_id)) this.kept.arrived(body);
      else this.deliver(body, stops[body.run_id]);
    }
    for (const [id, force] of Object.entries(stops)) {
      const answer = this.find(id);
      if (answer?.isOver) this.kept.stop(id, null);
      else if (!answer) this.ahead(id, force).then(() => this.kept.stop(id, null), () => {});
      else if (!this.sending.has(answer)) this.stop(answer, force);
    }
  }

  find(/** @type {string} */ sent) { return this.answers.find(({ id }) => id.endsWith(sent)); }

  /**
   * @param {Prompt} body
   * @param {Api.Force} [force] the force of its stop, if it was stopped before it arrived
   */
  async deliver(body, force) {
    const answer = this.newAnswer(body.run_id, body.input);
    answer.wasLive = true;
    answer.press.becomes(force ?? null);
    answer.say("Sending…");
    this.sending.add(answer);
    this.kept.prompt(body);
    this.how.onChange();
    try {
      const posted = this.arrived.then(() => this.post(body, answer));
      this.arrived = posted.catch(() => {});
      const run = await posted;
      answer.rename(run.run_id);
      answer.say(null);
      this.follow(answer, true);
    } catch (error) {
      answer.isRefused = true;
      answer.press.becomes(null);
      this.answers = this.answers.filter((other) => other !== answer);
      answer.element.remove();
      this.how.onGiveBack(body.input);
      const { kind, message } = troubleOf(error);
      this.how.onProblem(kind === "session-busy" ? BUSY : message);
    }
    this.kept.arrived(body);
    if (answer.isAhead || answer.isRefused) this.kept.stop(body.run_id, null);
    this.sending.delete(answer);
    this.how.onChange();
    this.look();
  }

  /** Posts a prompt, again if the server was gone: it is the same run. */
  async post(/** @type {Prompt} */ body, /** @type {Answer} */ answer) {
    for (;;) {
      try {
        const { pressed } = answer.press;
        if (pressed) await this.ahead(body.run_id, pressed);
        answer.isAhead = pressed !== null;
        return await post("/v1/runs", body);
      } catch (error) {
        if (!(error instanceof Problem) || !error.isGone) throw error;
        answer.say("The server is not responding. This will be sent again when it is back.");
        await isBack();
      }
    }
  }

  /** Stops a run that may not have arrived yet: the server remembers the stop for when it does. */
  async ahead(/** @type {string} */ run, /** @type {Api.Force} */ force) {
    try {
      await stopRun(run, { force });
    } catch (error) {
      const { body } = troubleOf(error);
      if (!body?.remembered_for_ms && !body?.pulled) throw error;
    }
  }

  get kept() { return new Kept(this); }

  /* Stopping (invariants 2 and 4). */

  /** Stop beside the input was pressed, or Escape. */
  press() {
    if (!may("run:cancel")) return;
    if (this.active && performance.now() < this.lateUntil) {
      this.how.onProblem(NEXT);
      return;
    }
    this.how.onProblem("");
    this.stop();
  }

  async stop(answer = this.active, /** @type {Api.Force | "none" | undefined} */ force = answer?.press.next) {
    if (!answer || !force || answer.isOver || force === "none") return;
    const { id, press } = answer;
    this.kept.stop(id, force);
    let said = "";
    await press.send(() => this.sendStop(answer, force), (heard) => {
      if (!heard && press.pressed === force) announce(press.words || (force === "now" ? "Stopping now." : "Stopping."));
      // Otherwise there may be something else to read there by now.
      if (press.words !== said) this.how.onProblem(said = press.words);
      answer.draw();
      this.how.onChange();
    }, force);
    // Otherwise a harder press has replaced it, or it is sent with the prompt.
    const isWithPrompt = answer.isAhead && this.sending.has(answer);
    if (!isWithPrompt && (force === "now" || press.pressed !== "now")) this.kept.stop(id, null);
  }

  /** Sends a stop of a run whose prompt may be on its way: the server remembers it for when the prompt arrives. */
  async sendStop(/** @type {Answer} */ answer, /** @type {Api.Force} */ force) {
    const wasSending = this.sending.has(answer);
    try {
      return await stopRun(answer.id, { force });
    } catch (error) {
      if (!wasSending || !troubleOf(error).body?.remembered_for_ms) throw error;
      answer.isAhead = true;
      return {};
    }
  }
}

/** @type {Record<string, string>} */
const ENDED = { completed: "The answer is complete.", cancelled: "Stopped.", failed: "The run failed.", lost: "The run was lost." };
const NEXT = "That answer had already ended, so nothing else was stopped. Press again to stop the next one.";
const BUSY = "Another answer is in progress in this session. Stop it, or queue your prompt.";

/** A unique id. */
function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  // Browsers offer randomUUID only on secure connections.
  return hex(16);
}

const newName = () => `chat-${hex(5)}`;
const hex = (/** @type {number} */ bytes) =>
  [...crypto.getRandomValues(new Uint8Array(bytes))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
