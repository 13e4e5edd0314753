// What a Stop button says and sends, for a run or for one of its calls: in the chat, on a run's page and on the board.
//
// 1. The button says what pressing it does.
// 2. The first press is graceful, even if the run was already going to stop after its turn. If a graceful stop is in progress,
//    whoever requested it, a press makes it `now`. There is nothing harder than `now`.
// 3. A press shows at once, before the server has responded. If it does not reach the server, it is sent again when the server is
//    back. A press that is refused has no effect.

import { troubleOf } from "./api.js";
import { isBack } from "./back.js";

/** @type {Api.Force[]} */
const ORDER = ["after_turn", "graceful", "now"];

/** @typedef {Api.Force | null | undefined} MaybeForce */

/** The hardest of these forces. Each may be missing. */
export const hardest = (/** @type {MaybeForce[]} */ ...forces) => ORDER[Math.max(-1, ...forces.map((force) => (force ? ORDER.indexOf(force) : -1)))] ?? null;

/** Whether a force cuts the work in progress, and not only what would come next. */
export const cuts = (/** @type {MaybeForce} */ force) => force === "graceful" || force === "now";

/**
 * What the next press does: "graceful", "now", or "none" if nothing is harder.
 * @param {{state?: Api.State, force?: MaybeForce, pressed?: MaybeForce}} of its state, the force of the stop in progress, and the force of the last press here
 */
export function nextForce({ state, force, pressed }) {
  // If a run is stopping and the force is not known, assume graceful.
  const asked = hardest(force, pressed) ?? (state === "cancelling" ? "graceful" : null);
  if (asked === "now") return "none";
  return cuts(asked) ? "now" : "graceful";
}

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

/**
 * Sends a stop until the server has accepted or refused it (invariant 3).
 * @template Answer
 * @param {() => Promise<Answer>} send
 * @param {{isOver: (error: ReturnType<typeof troubleOf>) => boolean, onHeard: (answer: Answer) => void,
 *   onProblem: (words: string, how: {isGone: boolean, isRefused: boolean}) => void}} how `isOver`: there is nothing left to
 *   do, because it has ended or a harder press has replaced this one
 */
export async function sendStop(send, { isOver, onHeard, onProblem }) {
  for (;;) {
    let answer;
    try {
      answer = await send();
    } catch (thrown) {
      const error = troubleOf(thrown);
      if (isOver(error)) return;
      const isGone = error.isGone === true;
      // The stop has taken effect even if it is not on disk yet.
      onProblem(isGone ? NOT_YET : error.message, { isGone, isRefused: !isGone && !error.body?.pulled });
      if (!isGone) return;
      await isBack();
      continue;
    }
    onHeard(answer);
    return;
  }
}
