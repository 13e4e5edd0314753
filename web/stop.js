// What a Stop button says and sends, for a run or for one of its calls: in the chat, on a run's page and on the board.
//
// 1. What the button says is what its press does.
// 2. The first press is graceful, also where the run was to stop after its turn. Where something is being cut, by whomever, a press
//    cuts it now; what is cut now cannot be stopped harder.
// 3. A press counts at once, before the server has answered it. One that did not reach the server is sent again when that is back.
//    One that was refused is no press.

import { isBack } from "./back.js";

const ORDER = ["after_turn", "graceful", "now"];

/** The hardest of these forces, each of which may be nothing. */
export const hardest = (...forces) => ORDER[Math.max(-1, ...forces.map((force) => ORDER.indexOf(force)))] ?? null;

/** Whether a force cuts what is in progress, and not only what would come next. */
export const cuts = (force) => force === "graceful" || force === "now";

/**
 * What the next press does: "graceful", "now", or "none" if it cannot be harder.
 * @param {{state?: string, force?: string | null, pressed?: string | null}} of how it stands, and how hard its Stop was pressed here
 */
export function nextForce({ state, force, pressed }) {
  // A run that is stopping and of which nobody has said how hard is taken to be cut.
  const asked = hardest(force, pressed) ?? (state === "cancelling" ? "graceful" : null);
  if (asked === "now") return "none";
  return cuts(asked) ? "now" : "graceful";
}

export const NOT_YET = "The stop has not reached the server. It will be sent again when the server is back.";

/** What the button says, by what its next press does; `unsent` if the last one did not reach the server. */
export const WORDS = {
  /** On a run's page. */
  run: { graceful: "Stop", now: "Stopping… press again to stop now", none: "Stopping now…", unsent: "Stop not sent" },
  /** On the card of a call. */
  call: { graceful: "Stop", now: "Stopping… press again to stop now", none: "Stopping now…" },
  /** Beside the input: what it says, and a hint. */
  chat: {
    graceful: ["Stop", "Escape"], now: ["Stopping…", "press again to stop now"], none: ["Stopping now…", ""],
    unsent: ["Stop not sent", "server not responding"],
  },
  /** In a row of the board. */
  row: {
    graceful: { label: "Stop", name: "Stop" },
    now: { label: "Stopping…", name: "Stop now", pressed: "once", title: "Press again to stop it now" },
    none: { label: "Stopping now…", name: "Stopping now", pressed: "now" },
    unsent: { label: "Not sent", name: "Stop not sent", pressed: "unsent", title: NOT_YET },
  },
};

/**
 * Sends a stop until the server has taken or refused it (invariant 3).
 * @param {() => Promise<any>} send
 * @param {{isOver: (error: any) => boolean, onHeard: (answer: any) => void,
 *   onProblem: (words: string, how: {isGone: boolean, isRefused: boolean}) => void}} how `isOver`: nothing is left to be done, as it has
 *   ended or a harder press has taken the place of this one
 */
export async function sendStop(send, { isOver, onHeard, onProblem }) {
  for (;;) {
    let answer;
    try {
      answer = await send();
    } catch (error) {
      if (isOver(error)) return;
      const isGone = error.isGone === true;
      // A cord that was pulled is pulled, even if the disk has not taken it yet.
      onProblem(isGone ? NOT_YET : error.message, { isGone, isRefused: !isGone && !error.body?.pulled });
      if (!isGone) return;
      await isBack();
      continue;
    }
    onHeard(answer);
    return;
  }
}
