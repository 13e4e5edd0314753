// The words of a run's facts, stops and receipts, for people.

import { REASON, VERDICT, number, several, span } from "./words.js";
import { wallUs } from "./instants.js";

/** @type {Record<string, string>} how hard a run was stopped */
export const FORCE = {
  after_turn: "after the turn: work in progress was allowed to finish",
  graceful: "gracefully: the model was cut off at once, tools got their grace period",
  now: "now: everything was cut off at once",
};
/** @type {Record<string, string>} */
export const FORCE_WORD = { after_turn: "after the turn", graceful: "gracefully", now: "now" };

/** @type {Record<string, string>} what a run was doing when it was stopped */
export const CUT_IN = {
  queued: "while waiting for its session", hook: "in a hook", model: "in the model’s answer",
  backoff: "while waiting to retry", tools: "while tools were running", waiting: "while waiting for approval", between: "between two steps",
};

/** @type {Record<string, string>} why a tool call was not run */
export const REFUSED = {
  unknown_tool: "there is no tool with that name", bad_arguments: "invalid arguments", duplicate_id: "duplicate call ID",
  denied_by_hook: "denied by a hook", answered_by_hook: "answered by a hook", denied_by_person: "denied by a person", call_cancelled: "stopped before it started",
  run_cancelled: "the run was stopped first", lost: "the program that ran it ended first",
};

/** @type {Record<string, string>} how a better figure is being obtained */
export const PENDING = {
  draining: "reading the rest of the answer to learn what it cost", looking_up: "asking the provider what it charges",
  counting: "asking the provider to count", estimating: "counting what was sent and shown",
};

/** @type {Record<string, string>} */
export const COMPENSATION = {
  started: "undo started", done: "undone", failed: "undo failed", unknown: "unknown whether it was undone",
};

/** @type {Record<string, string>} how a bar of the timeline ended */
export const HOW = {
  ...VERDICT, open: "in progress", over: "ended", answered: "answered", failed: "failed", lost: "lost: the program that ran it ended",
  panicked: "crashed", continued: "continued", changed: "changed", denied: "denied", asked: "asked for approval of the call", cancelled: "stopped the run", approved: "approved",
  closed: "closed: the run was stopped first",
};

/** How a run ended, to go at the end of a sentence. */
export function ending(/** @type {Api.Outcome | null | undefined} */ outcome) {
  if (!outcome) return "not settled yet";
  if (outcome.kind === "cancelled") return `stopped: ${REASON[outcome.reason] ?? outcome.reason}`;
  if (outcome.kind === "completed") return STOP[outcome.stop] ?? "completed";
  if (outcome.kind === "failed") return `failed: ${outcome.message}`;
  // A newer server may know other outcomes.
  const { kind } = /** @type {{kind: string}} */ (outcome);
  return kind === "lost" ? "lost: the program that ran it ended" : kind;
}
/** @type {Record<string, string>} */
const STOP = {
  end_turn: "completed", max_tokens: "completed: the answer reached its token limit",
  stop_sequence: "completed at a stop sequence", refused: "completed: the model refused", tool_use: "completed",
};

/** A time of day to the microsecond, in the reader's time zone. */
export function exactTime(/** @type {string} */ wall) {
  const micros = String(wallUs(wall) % 1e6).padStart(6, "0");
  return `${new Date(wall).toLocaleTimeString("en-GB", { hour12: false })}.${micros}`;
}

/** A day, in the reader's time zone. */
export const dayOf = (/** @type {string} */ wall) => new Date(wall).toLocaleDateString(undefined, { year: "numeric", month: "long", day: "numeric" });

/** The name of the reader's time zone. */
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** A number of characters: "640 characters", "12 kB", "5.2 MB". */
export function size(/** @type {number} */ length) {
  if (length < 2000) return several(length, "character");
  return length < 1e6 ? `${number(Math.round(length / 1000))} kB` : `${(length / 1e6).toFixed(1)} MB`;
}

/**
 * An addendum in words.
 * @param {Api.Addendum} it
 * @param {(call: string) => string} toolOf
 * @returns {[string, string]} a sentence, and a text below it
 */
export function addendum(it, toolOf) {
  const text = (/** @type {Api.Result} */ { content }) => content.map((part) => (part.type === "text" ? part.text : part.reference)).join("\n");
  if (it.type === "late_result") return [`${toolOf(it.call)} ended after the run. Its result was not used:`, text(it.result)];
  if (it.type === "compensation_started") return [`Undo of ${toolOf(it.call)} requested${it.by ? ` by ${it.by}` : ""}.`, ""];
  if (it.type === "compensation_finished") {
    const how = it.end === "unknown" ? "timed out" : it.result.status === "ok" ? "done" : "failed";
    return [`Undo of ${toolOf(it.call)}: ${how}.`, text(it.result)];
  }
  if (it.type === "undelivered") {
    const words = it.parts.map((part) => ("text" in part ? part.text : "arguments" in part ? part.arguments : "")).join("\n");
    return [`Model call ${it.call} continued after the cut. This was never shown:`, words];
  }
  if (it.type === "usage_corrected") return [`Corrected usage of model call ${it.call}.`, ""];
  // From a newer server.
  return [/** @type {Api.Addendum} */ (it).type, JSON.stringify(it)];
}

/**
 * A time since the run started, to the millisecond unless the run takes hours: "840 µs", "12.4 ms", "18.074 s", "2:05.120".
 * @param {number} ms
 * @returns {string}
 */
export function since(ms) {
  if (ms < 0) return `−${since(-ms)}`;
  if (ms < 10) return span(ms);
  if (ms < 1000) return `${ms.toFixed(1)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(3)} s`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = ((ms % 60_000) / 1000).toFixed(3).padStart(6, "0");
  return minutes < 60 ? `${minutes}:${seconds}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${seconds.slice(0, 2)}`;
}
