// Times, numbers and states in words.

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

/** A number with thousands separators. */
export const number = (/** @type {number} */ value) => whole.format(value);

/** A count with its noun: `several(2, "run")` is "2 runs". */
export const several = (/** @type {number} */ count, /** @type {string} */ one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** Words that can follow others, as the beginning of a sentence. */
export const sentence = (/** @type {string} */ text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A duration in milliseconds: "840 µs", "12 ms", "3.4 s", "2 min 05 s", "1 h 12 min". */
export function span(/** @type {number | null | undefined} */ ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "unknown";
  if (ms < 1) return `${Math.max(0, Math.round(ms * 1000))} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")} min`;
}

/** As `span`, for microseconds. */
export const spanUs = (/** @type {number | null | undefined} */ us) => span(us === null || us === undefined ? null : us / 1000);

/** A time of day. */
export const timeOfDay = (/** @type {string} */ wall) => clock.format(new Date(wall));

/** A date and a time of day. */
export const dayAndTime = (/** @type {string} */ wall) => `${day.format(new Date(wall))}, ${clock.format(new Date(wall))}`;

/** @type {Record<string, string>} where a figure comes from */
export const PROVENANCE = {
  reported: "reported by the provider",
  reported_running: "reported by the provider before the call was cut",
  looked_up: "obtained from the provider afterwards",
  counted: "counted",
  estimated: "estimated",
  bounded: "only bounds are known",
  unknown: "unknown",
};

/** @type {Api.Provenance[]} from the most to the least certain */
const WORST = ["reported", "reported_running", "looked_up", "counted", "estimated", "bounded", "unknown"];

/**
 * The sum of two figures: as certain as the less certain one. Unknown is not 0.
 * @type {(a: Api.Figure, b: Api.Figure) => Api.Figure}
 */
export function plus(a, b) {
  const both = (/** @type {number | null} */ x, /** @type {number | null} */ y) => (x === null || y === null ? null : x + y);
  const value = both(a.value, b.value);
  const low = a.low === null && b.low === null ? null : (a.low ?? 0) + (b.low ?? 0);
  const worse = WORST[Math.max(WORST.indexOf(a.provenance), WORST.indexOf(b.provenance))];
  const provenance = value !== null ? worse : low !== null ? "bounded" : "unknown";
  return { value, provenance, low, high: both(a.high, b.high) };
}

/**
 * All tokens that were read: `input` counts whatever no cache figure does, so one that is unknown adds nothing to it.
 * @type {(usage: Api.Usage) => Api.Figure}
 */
export const read = ({ input, cache_read, cache_write }) => [cache_read, cache_write].reduce((sum, cached) => {
  if (known(cached.value)) return plus(sum, cached);
  const low = cached.low ?? 0;
  return plus(sum, { value: low, provenance: "reported", low, high: low });
}, input);

/** A figure in a few characters: "1,234", "≈ 1,200", "≥ 40", "40–900", "unknown". Unknown is never 0. */
export function figure(/** @type {Api.Figure | null | undefined} */ it) {
  if (!it) return "unknown";
  const { value, provenance, low, high } = it;
  if (value !== null && value !== undefined) {
    return provenance === "estimated" ? `≈ ${number(value)}` : number(value);
  }
  if (known(low) && known(high)) return `${number(low)}–${number(high)}`;
  // "At least 0" says nothing.
  if (known(low) && low > 0) return `≥ ${number(low)}`;
  return known(high) ? `≤ ${number(high)}` : "unknown";
}

/** @type {(value: number | null | undefined) => value is number} */
const known = (value) => value !== null && value !== undefined;

/** A figure in full, for a tooltip: where it comes from, and its bounds. */
export function figureInFull(/** @type {Api.Figure | null | undefined} */ it) {
  if (!it) return PROVENANCE.unknown;
  const { value, provenance, low, high } = it;
  const bounds = known(low) && known(high) && low !== high ? `, between ${number(low)} and ${number(high)}` : "";
  const only = !known(value) && known(low) && low > 0 && !known(high) ? `, at least ${number(low)}` : "";
  return `${figure(it)}: ${PROVENANCE[provenance] ?? provenance}${bounds}${only}`;
}

/** An amount of money, as far as it is known. */
export function money(/** @type {Api.Cost | null | undefined} */ cost) {
  if (!cost) return "";
  const amount = (/** @type {number} */ value) => new Intl.NumberFormat("en", {
    style: "currency", currency: cost.currency, minimumFractionDigits: 2, maximumFractionDigits: value < 1 ? 5 : 2,
  }).format(value);
  if (known(cost.value)) return `${cost.provenance === "estimated" ? "≈ " : ""}${amount(cost.value)}`;
  if (known(cost.low) && known(cost.high)) return `${amount(cost.low)}–${amount(cost.high)}`;
  if (known(cost.low) && cost.low > 0) return `≥ ${amount(cost.low)}`;
  return known(cost.high) ? `≤ ${amount(cost.high)}` : "unknown";
}

/** A cost in full, for a tooltip: how it is known, its bounds, and the models without a price. */
export function moneyInFull(/** @type {Api.Cost | null | undefined} */ cost) {
  if (!cost) return "";
  const isRange = known(cost.value) && cost.low !== cost.high;
  const range = isRange ? ` (${money({ ...cost, value: null })})` : "";
  const unpriced = cost.unpriced?.length ? `; no price for ${cost.unpriced.join(", ")}` : "";
  return `${money(cost)}: ${PROVENANCE[cost.provenance] ?? cost.provenance}${range}${unpriced}`;
}

/** The state of a run for display: if the journal does not accept its end it is stalled, whatever it was doing. */
export const shownState = (/** @type {{state: ShownState, stalled?: string | null}} */ { state, stalled }) => (stalled && state !== "settled" ? "stalled" : state);

/** What a run is doing, in words. */
export function doing(/** @type {{state: ShownState, stalled?: string, phase?: Api.Phase | null, outcome?: Api.Outcome}} */ run) {
  const state = shownState(run);
  if (state === "settled") return OUTCOME[run.outcome?.kind ?? ""] ?? "settled";
  if (state === "running") return PHASE[run.phase ?? ""] ?? "running";
  return STATE[state] ?? state;
}

/** What went wrong, if a run failed. */
export const failure = (/** @type {Api.Outcome | undefined} */ outcome) => (outcome?.kind === "failed" ? outcome.message : undefined);

/** @type {Record<string, string>} */
export const STATE = {
  queued: "queued", running: "running", waiting: "needs approval", cancelling: "stopping", stalled: "stalled", settled: "settled",
};

/**
 * Explains that a run has stalled.
 * @param {string | null | undefined} why the server's reason
 * @param {boolean} isStopping whether a stop was requested: then it settles as stopped
 */
export function stalledWords(why, isStopping) {
  const how = isStopping ? " as stopped" : "";
  return "The run has stopped working, but its end cannot be written to the journal. " +
    `It will settle on its own${how} once the journal accepts writes again. The server says: ${why}.`;
}
/** @type {Record<string, string>} */
export const PHASE = {
  queued: "queued", hook: "in a hook", model: "model", backoff: "waiting to retry", tools: "tools",
  waiting: "needs approval", between: "running",
};
/** @type {Record<string, string>} */
export const OUTCOME = { completed: "completed", cancelled: "stopped", failed: "failed", lost: "lost" };

/** @type {Record<string, string>} what became of a tool call */
export const VERDICT = {
  finished: "finished", never_started: "never started", cut: "cut", unknown: "cut, effect unknown",
  late: "ended after the run", leaked: "leaked: it may still be running", detached: "still running, as declared",
};

/** @type {Record<string, string>} why a run was stopped */
export const REASON = {
  requested: "on request", client_disconnected: "the client disconnected", superseded: "a newer prompt replaced it",
  parent: "its parent run was stopped", deadline: "its time limit was reached", budget: "its budget was used up", policy: "not allowed by policy",
  approval_denied: "approval was denied", operator: "by an operator", shutdown: "the server shut down", owner_lost: "its program could not reach the database",
};
