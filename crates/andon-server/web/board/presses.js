// Which Stop buttons of the board were pressed. They are kept while other views are shown.

import { stopRun } from "../api.js";
import { announce } from "../dom.js";
import { Press } from "../stop.js";

/** @type {Map<string, Press>} by run id */
const presses = new Map();
const MOST = 10_000;

/** The presses on a run's Stop button; undefined if there were none. */
export function press(/** @type {Entry} */ { id, row }) {
  const own = presses.get(id);
  own?.take({ state: row.state, force: row.cancel?.force });
  return own;
}

function pressOf(/** @type {string} */ run) {
  const own = presses.get(run) ?? new Press();
  // The oldest runs have ended long ago.
  const [oldest] = presses.keys();
  if (oldest !== undefined && presses.size >= MOST) presses.delete(oldest);
  presses.set(run, own);
  return own;
}

/** Records that a run is being stopped by other means. */
export const note = (/** @type {string} */ run, /** @type {"graceful" | "now"} */ force) => pressOf(run).becomes(force);

/** A stop of this run was refused. */
export const refused = (/** @type {string} */ run, /** @type {string} */ problem) => pressOf(run).becomes(null, problem);

/**
 * Presses Stop on a run.
 * @param {string} run
 * @param {"graceful" | "now"} force as the button said
 * @param {string} name for announcements
 * @param {() => void} changed called at once, and whenever there is something new to show
 */
export function pressStop(run, force, name, changed) {
  const own = pressOf(run);
  own.send(() => stopRun(run, { force }), (answer) => {
    if (answer?.reply === "too_late") announce(`${name} had already ended.`);
    else if (own.words) announce(`${name}: ${own.words}`);
    else if (!answer && own.pressed) announce(force === "now" ? `Stopping ${name} now.` : `Stopping ${name}.`);
    changed();
  }, force);
}
