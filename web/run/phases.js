// What a fact says about how a run stands: its state, its phase, its end.

const running = (phase) => () => ({ state: "running", phase });

/** By type of fact: what of the run is otherwise now. */
const PHASES = {
  run_started: running("between"),
  hook_started: running("hook"),
  hook_finished: running("between"),
  model_started: running("model"),
  model_finished: running("between"),
  backoff_started: running("backoff"),
  backoff_finished: running("between"),
  tool_started: running("tools"),
  approval_requested: () => ({ state: "waiting", phase: "waiting" }),
  approval_resolved: running("between"),
  cancel_requested: ({ request }) => ({ state: "cancelling", force: request.force }),
  run_settled: ({ outcome, at }) => ({ state: "settled", outcome, ended_at: at.wall }),
};

/**
 * How a run stands behind a fact.
 * @param {any} before how it stood, as far as it has changed
 * @param {any} fact
 */
export function standing(before, fact) {
  const change = PHASES[fact.type]?.(fact);
  if (!change) return before;
  // A run that is stopping goes on stopping until it is settled, whatever ends meanwhile. It can be stopped harder, not softer.
  if (before?.state === "cancelling" && change.state !== "settled") {
    return change.force === "now" && before.force !== "now" ? { ...before, force: "now" } : before;
  }
  return { ...before, ...change };
}
