// Which Stop buttons were pressed, and what came of it.
//
// 1. A press is known at once, before the server has answered: whoever draws the run sees it in the same frame.
// 2. A press on a run that is being stopped, by whomever, stops it now; one that is stopped now cannot be stopped harder. What
//    the button says is what its press does.
// 3. A press that did not reach the server is sent again when that is back, and until then nobody is told that the run is
//    stopping. One that was refused is no press: the button is there again, and says why.

import { serverIsGone, stopRun } from "../api.js";
import { isBack } from "../back.js";
import { announce } from "../dom.js";

/** @type {Map<string, {force: "graceful" | "now", problem?: string, said?: string, isUnheard?: boolean}>} by run id */
const pressed = new Map();
const MOST = 10_000;

/** What is known of a run's Stop button; nothing if it was not pressed. */
export const press = (run) => pressed.get(run);

/** Takes note that a run is being stopped, by whatever means. */
export function note(run, force) {
  // The oldest are long over.
  if (pressed.size >= MOST) pressed.delete(pressed.keys().next().value);
  pressed.set(run, { force });
}

/** A stop of this run was refused. */
export function refused(run, problem) {
  pressed.set(run, { force: "graceful", problem });
}

/**
 * How hard the next press on a run's Stop is: nothing if it cannot be harder.
 * @param {string} run
 * @param {any} row the run as the board tells it
 * @returns {"graceful" | "now" | null}
 */
export function nextForce(run, { state, cancel }) {
  const own = pressed.get(run);
  const isOwn = own !== undefined && !own.problem;
  if ((isOwn && own.force === "now") || cancel?.force === "now") return null;
  return isOwn || state === "cancelling" ? "now" : "graceful";
}

/**
 * Presses Stop on a run.
 * @param {string} run
 * @param {"graceful" | "now"} force what the button said
 * @param {string} name for those who listen
 * @param {() => void} changed called when there is something new to show, first at once
 */
export async function pressStop(run, force, name, changed) {
  if (serverIsGone()) pressed.set(run, { force, said: NOT_YET, isUnheard: true });
  else note(run, force);
  changed();
  announce(serverIsGone() ? `${name}: ${NOT_YET}` : force === "now" ? `Stopping ${name} now.` : `Stopping ${name}.`);
  while (await isUnheard(run, force, name, changed)) await isBack();
}

export const NOT_YET = "The stop did not reach the server. It is sent again when the server is back.";

/** Sends a stop; gives whether that has to be done again. */
async function isUnheard(run, force, name, changed) {
  try {
    const { reply } = await stopRun(run, { force });
    if (reply === "too_late") announce(`${name} was already over.`);
    if (pressed.get(run)?.said) note(run, force);
    return false;
  } catch (error) {
    // A harder press has taken its place.
    if (pressed.get(run)?.force !== force) return false;
    // A cord that was pulled is pulled, even if the disk has not taken it yet.
    if (error.body?.pulled || error.isGone) pressed.set(run, { force, said: error.isGone ? NOT_YET : error.message, isUnheard: error.isGone });
    else refused(run, error.message);
    announce(`${name}: ${error.isGone ? NOT_YET : error.message}`);
    return error.isGone;
  } finally {
    changed();
  }
}
