// Which Stop buttons were pressed, and with what result.
//
// 1. A press is recorded at once, before the server responds, so that it shows in the same frame.
// 2. What the button says and does is defined in `stop.js`, as everywhere on the page.
// 3. A press that did not reach the server is sent again when the server is back; until then the run is not shown as stopping.
//    After a refusal the button is back, and says why.

import { serverIsGone, stopRun } from "../api.js";
import { announce } from "../dom.js";
import { nextForce as next, NOT_YET, sendStop } from "../stop.js";

/** @type {Map<string, {force: "graceful" | "now", problem?: string, said?: string, isUnheard?: boolean}>} by run id */
const pressed = new Map();
const MOST = 10_000;

/** The last press on a run's Stop button; undefined if there was none. */
export const press = (/** @type {string} */ run) => pressed.get(run);

/** Records that a run is being stopped, by whatever means. */
export function note(/** @type {string} */ run, /** @type {"graceful" | "now"} */ force) {
  // The oldest runs have ended long ago.
  const [oldest] = pressed.keys();
  if (oldest !== undefined && pressed.size >= MOST) pressed.delete(oldest);
  pressed.set(run, { force });
}

/** A stop of this run was refused. */
export function refused(/** @type {string} */ run, /** @type {string} */ problem) {
  pressed.set(run, { force: "graceful", problem });
}

/**
 * What the next press on a run's Stop does.
 * @param {string} run
 * @param {Api.Row} row the run's row on the board
 * @returns {"graceful" | "now" | "none"}
 */
export function nextForce(run, { state, cancel }) {
  const own = pressed.get(run);
  return next({ state, force: cancel?.force, pressed: own && !own.problem ? own.force : null });
}

/**
 * Presses Stop on a run.
 * @param {string} run
 * @param {"graceful" | "now"} force as the button said
 * @param {string} name for announcements
 * @param {() => void} changed called at once, and whenever there is something new to show
 */
export async function pressStop(run, force, name, changed) {
  if (serverIsGone()) pressed.set(run, { force, said: NOT_YET, isUnheard: true });
  else note(run, force);
  changed();
  announce(serverIsGone() ? `${name}: ${NOT_YET}` : force === "now" ? `Stopping ${name} now.` : `Stopping ${name}.`);
  await sendStop(() => stopRun(run, { force }), {
    // A harder press has replaced it.
    isOver: () => pressed.get(run)?.force !== force,
    onHeard: ({ reply }) => {
      if (reply === "too_late") announce(`${name} had already ended.`);
      if (pressed.get(run)?.said) note(run, force);
      changed();
    },
    onProblem: (words, { isGone, isRefused }) => {
      if (isRefused) refused(run, words);
      else pressed.set(run, { force, said: words, isUnheard: isGone });
      announce(`${name}: ${words}`);
      changed();
    },
  });
}
