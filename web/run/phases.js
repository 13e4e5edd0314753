// What a fact says about how a run stands: its state, its phase, how hard it is being stopped, and its end.

/**
 * How a run stands behind a fact, which says so itself.
 * @param {any} before how it stood, as far as it has changed
 * @param {any} fact
 */
export function standing(before, fact) {
  if (!fact.standing) return before;
  const { state, phase = null, force = null } = fact.standing;
  const isEnd = fact.type === "run_settled";
  if (!isEnd && before?.state === state && before.phase === phase && before.force === force) return before;
  return { ...before, state, phase, force, ...(isEnd && { outcome: fact.outcome, ended_at: fact.at.wall }) };
}
