// The standing of a run after a fact: its state, its phase, the force of its stop, and its end.

/**
 * The standing of a run after a fact. The fact itself has it.
 * @param {RunStanding | null} before the standing before the fact
 * @param {Api.Fact} fact
 * @returns {RunStanding | null}
 */
export function standing(before, fact) {
  if (!fact.standing) return before;
  const { state, phase = null, force = null } = fact.standing;
  const end = fact.type === "run_settled" ? { outcome: fact.outcome, ended_at: fact.at.wall } : null;
  if (!end && before?.state === state && before.phase === phase && before.force === force) return before;
  return { ...before, state, phase, force, ...end };
}
