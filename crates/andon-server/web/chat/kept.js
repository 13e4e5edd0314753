// Prompts and stops that are not known to have reached the server, kept for this tab across reloads.
//
// 1. A prompt is kept from before it is sent until the server has accepted or refused it; a stop from the press until the server has
//    received it or the run has ended.
// 2. Each session is kept separately.

import { STORED } from "../api.js";
import { store, stored } from "./store.js";

/** @typedef {{app: string, user: string, session: string, run_id: string, input: string, when_busy?: "queue"}} Prompt as it is sent */
/** @typedef {{prompts: Prompt[], stops: Record<string, Api.Force>}} ToSend the prompts in order, and the force of each stop */

/** What is still to be sent in one session. */
export class Kept {
  /** @param {{app: string, user: string, session: string | null}} where */
  constructor({ app, user, session }) {
    this.key = `${STORED}sending.${app}.${user}.${session}`;
  }

  /** @returns {ToSend} */
  read() {
    try {
      const { prompts = [], stops = {} } = JSON.parse(stored(this.key) ?? "null") ?? {};
      return { prompts, stops };
    } catch {
      return { prompts: [], stops: {} };
    }
  }

  #write(/** @type {ToSend} */ it) {
    store(this.key, it.prompts.length || Object.keys(it.stops).length ? JSON.stringify(it) : null);
  }

  /** Adds a prompt at the end. */
  prompt(/** @type {Prompt} */ body) {
    const it = this.read();
    if (!it.prompts.some(({ run_id: id }) => id === body.run_id)) it.prompts.push(body);
    this.#write(it);
  }

  /** Removes a prompt that has arrived or was refused. */
  arrived(/** @type {Prompt} */ { run_id: sent }) {
    const it = this.read();
    it.prompts = it.prompts.filter(({ run_id: id }) => id !== sent);
    this.#write(it);
  }

  /** Keeps the force of a run's stop, or removes it (`null`). */
  stop(/** @type {string} */ run, /** @type {Api.Force | null} */ force) {
    const it = this.read();
    if (force) it.stops[run] = force;
    else delete it.stops[run];
    this.#write(it);
  }
}
