// What was sent and pressed in a session and is not known to have arrived: kept for this tab, through a reload.
//
// 1. A prompt is kept from before it is sent until the server has taken or refused it; a stop from the press until the server
//    has heard of it or the run is over.
// 2. Whatever is kept of one session is none of another's.

import { store, stored } from "./store.js";

/** What one session has to do yet. */
export class Kept {
  /** @param {{app: string, user: string, session: string | null}} where */
  constructor({ app, user, session }) {
    this.key = `andon.sending.${app}.${user}.${session}`;
  }

  /** @returns {{prompts: any[], stops: Record<string, string>}} the prompts in their order; how hard each run is to be stopped */
  read() {
    try {
      const { prompts = [], stops = {} } = JSON.parse(stored(this.key) ?? "null") ?? {};
      return { prompts, stops };
    } catch {
      return { prompts: [], stops: {} };
    }
  }

  #write(it) {
    store(this.key, it.prompts.length || Object.keys(it.stops).length ? JSON.stringify(it) : null);
  }

  /** Keeps a prompt, at the end of those that are kept. */
  prompt(body) {
    const it = this.read();
    if (!it.prompts.some(({ run_id: id }) => id === body.run_id)) it.prompts.push(body);
    this.#write(it);
  }

  /** A prompt has arrived, or was refused. */
  arrived({ run_id: sent }) {
    const it = this.read();
    it.prompts = it.prompts.filter(({ run_id: id }) => id !== sent);
    this.#write(it);
  }

  /** Keeps that a run is to be stopped, or that there is no need any more (`null`). */
  stop(run, force) {
    const it = this.read();
    if (force) it.stops[run] = force;
    else delete it.stops[run];
    this.#write(it);
  }
}
