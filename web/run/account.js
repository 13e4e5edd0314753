// A run's receipt, looked at again as long as there may be more to learn.
//
// 1. Who asks is told of each receipt once: one that says the same as the last is not told again.
// 2. While the run is in progress it is looked at when `look` is called, and not by itself.
// 3. Behind the end it is looked at again for a while if a better figure is on its way, or a tool goes on.

import { get, part } from "../api.js";

const AGAIN = 2000;
const LONGEST = 30_000;
/** How soon behind the last look it is looked at again. */
const SOONEST = 700;

/**
 * @param {string} run
 * @param {(receipt: any) => void} onReceipt
 * @param {AbortSignal} signal
 * @returns {{look: () => void, first: Promise<any>}} `first` fails if the first look does
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
  const later = (wait) => {
    if (state.timer || signal.aborted) return;
    // A look that fails is not the last: that the server is gone is said elsewhere.
    state.timer = setTimeout(() => look().catch(() => { if (!signal.aborted) later(AGAIN); }), wait);
  };
  signal.addEventListener("abort", () => clearTimeout(state.timer), { once: true });
  return { look: () => later(SOONEST), first: look() };
}

function mayLearnMore(receipt, state) {
  if (!receipt.outcome) return false;
  state.settledAt ||= Date.now();
  return Date.now() - state.settledAt < LONGEST && isOpen(receipt);
}

/** Whether something of a settled run is not known yet. */
export function isOpen({ model_calls, calls }) {
  const goesOn = ({ verdict, compensation }) => verdict === "leaked" || verdict === "detached" || compensation === "started";
  return model_calls.some(({ pending }) => pending) || calls.some(goesOn);
}
