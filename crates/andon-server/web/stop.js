// What a Stop button says and sends, for a run or for one of its calls: in the chat, on a run's page and on the board.
//
// 1. The button says what pressing it does.
// 2. The first press is graceful, even if the run was already going to stop after its turn. If a graceful stop is in progress,
//    whoever requested it, a press makes it `now`. There is nothing harder than `now`.
// 3. A press shows at once, before the server has responded. If it does not reach the server, it is sent again when the server is
//    back. After a refused press the button is back to what the server says of the run.
// 4. A press is forgotten once the server says that the run is being stopped as hard as that, or has settled.

import { serverIsGone, troubleOf } from "./api.js";
import { isBack } from "./back.js";

/** @type {Api.Force[]} */
const ORDER = ["after_turn", "graceful", "now"];

/** @typedef {Api.Force | null | undefined} MaybeForce */

/** The hardest of these forces. Each may be missing. */
export const hardest = (/** @type {MaybeForce[]} */ ...forces) => ORDER[Math.max(-1, ...forces.map((force) => (force ? ORDER.indexOf(force) : -1)))] ?? null;

/** Whether a force cuts the work in progress, and not only what would come next. */
export const cuts = (/** @type {MaybeForce} */ force) => force === "graceful" || force === "now";

/** What the next press does, by the force of the stop in progress: "graceful", "now", or "none" if nothing is harder. */
export const nextForce = (/** @type {MaybeForce} */ force) => (force === "now" ? "none" : cuts(force) ? "now" : "graceful");

export const NOT_YET = "The stop has not reached the server. It will be sent again when the server is back.";

/** The button's label, by what its next press does; `unsent` if the last press has not reached the server. */
export const WORDS = {
  /** On a run's page. */
  run: { graceful: "Stop", now: "Stopping… press again to stop now", none: "Stopping now…", unsent: "Stop not sent" },
  /** On the card of a call. */
  call: { graceful: "Stop", now: "Stopping… press again to stop now", none: "Stopping now…" },
  /** Beside the input: a label and a hint. */
  chat: {
    graceful: ["Stop", "Escape"], now: ["Stopping…", "press again to stop now"], none: ["Stopping now…", ""],
    unsent: ["Stop not sent", "server not responding"],
  },
  /** @type {Record<NextForce | "unsent", {label: string, name: string, pressed?: string, title?: string}>} in a row of the board */
  row: {
    graceful: { label: "Stop", name: "Stop" },
    now: { label: "Stopping…", name: "Stop now", pressed: "once", title: "Press again to stop it now" },
    none: { label: "Stopping now…", name: "Stopping now", pressed: "now" },
    unsent: { label: "Not sent", name: "Stop not sent", pressed: "unsent", title: NOT_YET },
  },
};

/** The presses on the Stop button of a run or of a call. */
export class Press {
  /** @type {Api.Force | null} the force of the stop in progress, as the server says */
  told = null;
  /** @type {Api.Force | null} the force of the last press, until it is refused or forgotten */
  pressed = null;
  /** What to say about the last press, if it did not simply work. */
  words = "";

  get force() { return hardest(this.told, this.pressed); }
  get next() { return nextForce(this.force); }
  /** Whether the last press has not reached the server. */
  get isUnsent() { return this.words === NOT_YET; }
  /** Whether the work in progress is being cut, as far as is known. */
  get isStopping() { return cuts(this.isUnsent ? this.told : this.force); }

  becomes(/** @type {Api.Force | null} */ pressed, words = "") {
    this.pressed = pressed;
    this.words = words;
  }

  /** Takes what the server says (invariant 4). It may be older than what is known, but a stop only gets harder. */
  take(/** @type {{state?: Api.State, force?: MaybeForce}} */ { state, force }) {
    this.told = hardest(this.told, force);
    if (state === "settled" || (this.pressed && this.force === this.told)) this.becomes(null);
  }

  /**
   * Presses it, and sends the stop until the server has accepted or refused it (invariant 3).
   * @param {(force: Api.Force) => Promise<Partial<Api.Cancelled>>} send
   * @param {(answer?: Partial<Api.Cancelled>) => void} changed called at once, and whenever there is something new to show
   */
  async send(send, changed, /** @type {Api.Force | "none"} */ force = this.next) {
    if (force === "none") return;
    this.becomes(force, serverIsGone() ? NOT_YET : "");
    changed();
    let answer;
    // It ends early if a harder press has replaced this one, or it was forgotten.
    while (!answer && this.pressed === force) {
      try {
        answer = await send(force);
        if (this.pressed === force) this.words = "";
        // For a call, the force is that of its run.
        if (!answer.call) this.take({ force: answer.force });
      } catch (thrown) {
        const { isGone, body, message } = troubleOf(thrown);
        if (this.pressed !== force) break;
        // The stop has taken effect even if it is not on disk yet.
        this.becomes(isGone || body?.pulled ? force : null, isGone ? NOT_YET : message);
        if (!isGone) break;
        changed();
        await isBack();
      }
    }
    changed(answer);
  }
}
