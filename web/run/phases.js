// The standing of a run after a fact: its state, its phase, the force of its stop, and its end.

/**
 * The standing of a run after a fact. The fact itself has it.
 * @param {any} before the standing before the fact, or null
 * @param {any} fact
 */
export function standing(before, fact) {
  if (!fact.standing) return before;
  const { state, phase = null, force = null } = fact.standing;
  const isEnd = fact.type === "run_settled";
  if (!isEnd && before?.state === state && before.phase === phase && before.force === force) return before;
  return { ...before, state, phase, force, ...(isEnd && { outcome: fact.outcome, ended_at: fact.at.wall }) };
}
