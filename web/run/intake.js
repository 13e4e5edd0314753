// Items taken in a little at a time, so that a million of them freeze nothing.
//
// 1. In a frame, items are taken for at most `SLICE` milliseconds; the others wait for the next one, in order.
// 2. After each slice who shows them is told once.

import { everyFrame } from "../dom.js";

const SLICE = 8;
/** How many items are taken between two looks at the clock. */
const STEP = 128;

/**
 * @param {(item: any) => void} take
 * @param {(isCaughtUp: boolean) => void} after
 * @param {AbortSignal} signal
 * @returns {(items: any[]) => void} hands items in
 */
export function intake(take, after, signal) {
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
    after(batches.length === 0);
    if (batches.length) work();
  }, signal);
  signal.addEventListener("abort", () => { batches = []; }, { once: true });
  return (items) => {
    batches.push(items);
    work();
  };
}
