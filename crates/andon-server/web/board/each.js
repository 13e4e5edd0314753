// Stops several runs by their ids: exactly these and no others.

import { stopRun, troubleOf } from "../api.js";
import { refused } from "./presses.js";

/** How many requests are sent at a time. Browsers limit connections, and a Stop on a row must still get through. */
const AT_ONCE = 4;

/**
 * @typedef {{run_id: string} & Partial<Api.Cancelled>} Stopped only its id if the stop took effect but is not on disk
 * @typedef {{runs: Stopped[], stopped: number, refused: {id: string, text: string}[]}} Done
 * @typedef {{force: "graceful" | "now", note: string}} How
 */

/** Whether a run had ended before the stop arrived. */
export const wasOver = (/** @type {Stopped} */ { reply }) => reply === "too_late" || reply === "not_running";

/**
 * @param {string[]} ids
 * @param {How} how
 * @param {(many: number) => void} [progress] how many requests have been sent so far
 * @returns {Promise<Done>} what became of each
 */
export async function stopEach(ids, how, progress) {
  /** @type {Done} */
  const done = { runs: [], stopped: 0, refused: [] };
  const left = [...ids];
  let many = 0;
  const work = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      await one(id, how, done);
      progress?.((many += 1));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return done;
}

async function one(/** @type {string} */ id, /** @type {How} */ how, /** @type {Done} */ done) {
  try {
    const run = await stopRun(id, how);
    done.runs.push(run);
    if (!wasOver(run)) done.stopped += 1;
  } catch (error) {
    const { body, message } = troubleOf(error);
    if (body?.pulled) {
      // The stop has taken effect even if it is not on disk yet.
      done.runs.push({ run_id: id });
      done.stopped += 1;
      return;
    }
    refused(id, message);
    done.refused.push({ id, text: message });
  }
}
