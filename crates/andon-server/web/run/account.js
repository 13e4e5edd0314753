// Loads a run's receipt, and loads it again while there may be more to learn.
//
// 1. A receipt that is the same as the last one is not reported again.
// 2. While the run is in progress the receipt is only loaded when `look` is called.
// 3. After the end it is loaded again for a while if a better figure is pending or a tool is still running.

import { get, part } from "../api.js";

const AGAIN = 2000;
const LONGEST = 30_000;
/** The delay after `look`, so that several calls share one request, in milliseconds. */
const SOONEST = 700;

/**
 * @param {string} run
 * @param {(receipt: Api.Receipt) => void} onReceipt
 * @param {AbortSignal} signal
 * @returns {{look: () => void, first: Promise<Api.Receipt>}} `first` rejects if the first request fails
 */
export function account(run, onReceipt, signal) {
  const state = { known: "", timer: 0, settledAt: 0 };
  const look = async () => {
    state.timer = 0;
    const receipt = await get(`/v1/runs/${part(run)}/receipt`, { signal });
    if (signal.aborted) return receipt;
    const text = JSON.stringify(receipt);
    if (text !== state.known) {
      state.known = text;
      onReceipt(receipt);
    }
    if (mayLearnMore(receipt, state)) later(AGAIN);
    return receipt;
  };
  const later = (/** @type {number} */ wait) => {
    if (state.timer || signal.aborted) return;
    // If it fails, try again; a missing server is reported elsewhere.
    state.timer = setTimeout(() => look().catch(() => { if (!signal.aborted) later(AGAIN); }), wait);
  };
  signal.addEventListener("abort", () => clearTimeout(state.timer), { once: true });
  return { look: () => later(SOONEST), first: look() };
}

function mayLearnMore(/** @type {Api.Receipt} */ receipt, /** @type {{settledAt: number}} */ state) {
  if (!receipt.outcome) return false;
  state.settledAt ||= Date.now();
  return Date.now() - state.settledAt < LONGEST && isOpen(receipt);
}

/** Whether more may become known about a settled run. */
export function isOpen(/** @type {Api.Receipt} */ { model_calls, calls }) {
  const goesOn = (/** @type {Api.CallAccount} */ { verdict, compensation }) => verdict === "leaked" || verdict === "detached" || compensation === "started";
  return model_calls.some(({ pending }) => pending) || calls.some(goesOn);
}
