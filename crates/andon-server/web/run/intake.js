// Processes items a few at a time, so that even a million of them do not freeze the page.
//
// 1. In each frame items are processed for at most `SLICE` milliseconds; the others wait for the next frame, in order.
// 2. `after` is called once after each slice.

import { everyFrame } from "../dom.js";

const SLICE = 8;
/** How many items are processed before the clock is checked again. */
const STEP = 128;

/**
 * @template Item
 * @param {(item: Item) => void} take
 * @param {() => void} after
 * @param {AbortSignal} signal
 * @returns {(items: Item[]) => void} adds items
 */
export function intake(take, after, signal) {
  /** @type {Item[][]} */
  let batches = [];
  let next = 0;
  const work = everyFrame(() => {
    const end = performance.now() + SLICE;
    while (batches.length && performance.now() < end) {
      const batch = batches[0];
      const stop = Math.min(next + STEP, batch.length);
      for (; next < stop; next += 1) take(batch[next]);
      if (next < batch.length) continue;
      batches.shift();
      next = 0;
    }
    after();
    if (batches.length) work();
  }, signal);
  signal.addEventListener("abort", () => { batches = []; }, { once: true });
  return (items) => {
    batches.push(items);
    work();
  };
}
