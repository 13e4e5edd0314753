// Folds a run's feed into what is shown of it. There are no elements, no clock and no network here: the same items give the same
// run, whether they arrive one by one, all at once after a reload, or in another tab.
//
// 1. Pieces are shown as they arrive; then the message on record replaces them. If both are the same, nothing changes.
// 2. A part keeps its identity while it is shown, so that only what is new has to be drawn. Its text only grows, unless its
//    `edition` changes.
// 3. A text is marked as cut when the run has settled, not before.
// 4. Only the end of a tool's live output is kept: `dropped` counts what is gone.
// 5. An unknown item changes nothing but the standing of the run, if it has one.
// 6. The standing of a run (its state, its phase and the force of its stop) is taken from the last fact that has one, and from
//    nothing else.

import { plus, read } from "../words.js";

/** How many characters of a tool's live output are kept. */
export const OUTPUT_KEPT = 200_000;

/**
 * A run of which nothing is known yet.
 * @param {string} id
 */
export function newRun(id) {
  /** @type {ChatRun} */
  const run = {
    id, state: "queued", phase: null, force: null, before: [], prompt: null, acceptedAt: null, startedAt: null, settledAt: null, parts: [],
    requests: [], usage: [], outcome: null, failure: null, isTextLost: false, quietTook: null, settledTook: null,
    /** The index of the first part of the answer in progress, if there is one. */
    answerFrom: null,
    /** The index of the first part of the last answer on record, if there is one. */
    lastAnswerFrom: null,
    /** The calls that have not ended. A run may have made thousands of others. */
    openCalls: [],
  };
  return run;
}

/**
 * Applies an item of the feed to a run.
 * @param {ChatRun} run
 * @param {Api.RunItem} item
 * @param {number} [now] milliseconds of any clock, if the item is live and not from the past
 */
export function fold(run, item, now) {
  /** @type {Table} */ (TAKE)[item.type]?.(run, item, now);
  if ("standing" in item && item.standing) ({ state: run.state, phase: run.phase = null, force: run.force = null } = item.standing);
  return run;
}

/** The whole text of a part. */
export const textOf = (/** @type {Written} */ part) => part.pieces.join("");

/** The calls of a run, in display order. */
export const callsOf = (/** @type {ChatRun} */ run) => run.parts.filter((part) => part.kind === "call");

/* What each item does. */

/** @typedef {Record<string, ((run: ChatRun, item: Api.RunItem, now?: number) => void) | undefined>} Table of items of any type */

/** @type {{[Type in Api.RunItem["type"]]?: (run: ChatRun, item: Api.RunItemOf<Type>, now?: number) => void}} */
const TAKE = {
  run_accepted(run, { accepted, at }) {
    run.before = accepted.history ?? [];
    run.prompt = accepted.input.parts;
    run.acceptedAt = at.wall;
  },
  run_started(run, { at }) { run.startedAt = at.wall; },
  model_started(run) { run.answerFrom = run.parts.length; },
  delta: takeDelta,
  text_lost(run) { run.isTextLost = true; },
  message: takeMessage,
  usage(run, { call, used }) {
    run.usage = [...run.usage.filter((known) => known.call !== call), { call, used }];
  },
  model_finished(run, { end }, now) {
    run.failure = end.how === "failed" ? end.failure : null;
    closeAnswer(run, now);
  },
  hook_finished(run, { change }) {
    if (change?.what === "answer") replaceAnswer(run, change.answer);
    // A person is asked about the call as it is now.
    if (change?.what === "call") withCall(run, change.call.id, (part) => { settled(part, change.call.arguments).tool = change.call.name; });
    if (change?.what === "result") withCall(run, change.result.call, (part) => { part.result = change.result; });
  },
  backoff_started(run, { delay_ms: delay }) {
    run.parts.push({ kind: "again", delay, failure: run.failure, isOver: false });
  },
  backoff_finished(run) {
    const last = run.parts.findLast((part) => part.kind === "again");
    if (last) last.isOver = true;
  },
  approval_requested(run, { call, arguments: digest }) {
    withCall(run, call, (part) => { part.stage = "waits"; part.digest = digest ?? null; });
  },
  approval_resolved(run, { call, verdict }) {
    withCall(run, call, (part) => { part.approval = verdict; part.stage = "asked"; });
  },
  tool_started(run, { call, at }) {
    withCall(run, call, (part) => { part.stage = "runs"; part.startedAt = at; });
  },
  tool_finished(run, { call, end, result, remains, at }) {
    withCall(run, call, (part) => closeCall(run, part, { verdict: end, result, remains, at }));
  },
  tool_refused(run, { call, why, result, at }) {
    const last = why === "duplicate_id";
    withCall(run, call, (part) => closeCall(run, part, { verdict: "never_started", why, result, at }), last);
  },
  call_cancel_requested(run, { call, request }) {
    withCall(run, call, (part) => { part.requests = [...part.requests, request]; });
  },
  cancel_requested(run, { request }) { run.requests = [...run.requests, request]; },
  run_settled(run, { outcome, at }, now) {
    // The part of an answer that was shown but never recorded was lost with the server.
    if (outcome.kind === "lost" && run.answerFrom !== null) run.parts = run.parts.slice(0, run.answerFrom);
    closeAnswer(run, now);
    run.outcome = outcome;
    run.settledAt = at.wall;
  },
};

/**
 * Milliseconds between two instants: exact if one process measured both, otherwise by wall time.
 * @param {Api.Stamp | null} from
 * @param {Api.Stamp} to
 */
function between(from, to) {
  if (!from || !to) return null;
  if (to.mono_us >= from.mono_us) return (to.mono_us - from.mono_us) / 1000;
  return Math.max(0, Date.parse(to.wall) - Date.parse(from.wall));
}

/* Pieces of an answer. */

/** @type {(run: ChatRun, item: Api.Delta, now?: number) => void} */
function takeDelta(run, { text, thinking, tool_input: input, tool_output: output, call, tool }, now) {
  if (output !== undefined) {
    withCall(run, call ?? "", (part) => show(part, output));
    return;
  }
  run.answerFrom ??= run.parts.length;
  if (input !== undefined) {
    const part = callInAnswer(run, call ?? "") ?? add(run, newCall(call ?? "", tool), now);
    part.tool ||= tool ?? "";
    part.pieces.push(input);
  } else {
    const kind = thinking === undefined ? "text" : "thinking";
    const piece = thinking ?? text;
    if (piece === undefined) return;
    const last = run.parts.length > run.answerFrom ? run.parts.at(-1) : null;
    const part = last && isText(last) && last.kind === kind ? last : add(run, newText(kind, now), now);
    part.pieces.push(piece);
  }
}

/** @type {(kind: "text" | "thinking", now?: number) => TextPart | ThinkingPart} */
function newText(kind, now) {
  const text = { pieces: [], edition: 0, isOpen: true, cut: null };
  return kind === "text" ? { kind, ...text } : { kind, ...text, began: now ?? null, took: null };
}

/** @type {(part: ChatPart) => part is TextPart | ThinkingPart} */
const isText = (part) => part.kind === "text" || part.kind === "thinking";

/** @type {(id: string, tool?: string) => CallPart} */
const newCall = (id, tool) => ({
  kind: "call", id, tool: tool ?? "", pieces: [], edition: 0, isOpen: true, stage: "written", digest: null, approval: null,
  startedAt: null, took: null, requests: [], output: [], outputSize: 0, dropped: 0, verdict: null, why: null, result: null, remains: null,
});

/**
 * A new part ends the thought before it.
 * @template {ChatPart} Part
 * @param {ChatRun} run
 * @param {Part} part
 * @param {number} [now]
 */
function add(run, part, now) {
  endThought(run.parts.at(-1), now);
  run.parts.push(part);
  return part;
}

function endThought(/** @type {ChatPart | undefined} */ part, /** @type {number | undefined} */ now) {
  if (part?.kind !== "thinking" || !part.isOpen) return;
  part.isOpen = false;
  // Pieces have no timestamps, so the duration is only known if we watched it live.
  if (part.began !== null && now !== undefined) part.took = now - part.began;
}

/** Whether a part is the call with this id. */
const isCall = (/** @type {string} */ id) =>
  /** @type {(part: ChatPart) => part is CallPart} */ ((part) => part.kind === "call" && part.id === id);

const callInAnswer = (/** @type {ChatRun} */ run, /** @type {string} */ id) => run.parts.slice(run.answerFrom ?? 0).find(isCall(id));

function show(/** @type {CallPart} */ part, /** @type {string} */ output) {
  const kept = output.length > OUTPUT_KEPT ? output.slice(-OUTPUT_KEPT) : output;
  part.dropped += output.length - kept.length;
  part.output.push(kept);
  part.outputSize += kept.length;
  while (part.outputSize > OUTPUT_KEPT && part.output.length > 1) {
    const gone = part.output.shift() ?? "";
    part.outputSize -= gone.length;
    part.dropped += gone.length;
  }
}

/* The answer on record (invariant 1). */

/** @type {(run: ChatRun, item: Api.RunItemOf<"message">, now?: number) => void} */
function takeMessage(run, { message }, now) {
  if (message.role !== "assistant") return;
  const from = run.answerFrom ?? run.parts.length;
  const shown = run.parts.splice(from);
  endThought(shown.at(-1), now);
  for (const said of message.parts) {
    const part = partOf(said, shown);
    if (part) run.parts.push(part);
    if (part?.kind === "call") run.openCalls.push(part);
  }
  if (message.cut) {
    const last = run.parts.slice(from).findLast(isText);
    if (last) last.cut = message.cut;
  }
  run.answerFrom = null;
  run.lastAnswerFrom = from;
}

/**
 * A hook has put another text in the place of the last answer's. Its calls stay visible: they say what became of them.
 * @param {ChatRun} run
 * @param {Api.Message} answer
 */
function replaceAnswer(run, answer) {
  if (run.lastAnswerFrom === null) return;
  const shown = run.parts.splice(run.lastAnswerFrom);
  const has = (/** @type {string} */ type) => answer.parts.some((part) => part.type === type);
  const kept = shown.filter((part) => part.kind !== "text" && (part.kind !== "thinking" || has("thinking")));
  const texts = answer.parts.filter((part) => part.type === "text").map((part) => partOf(part, []));
  run.parts.push(...texts.filter((part) => part !== null), ...kept);
}

/**
 * Removes and returns the first part that matches.
 * @template {ChatPart} Part
 * @param {ChatPart[]} parts
 * @param {(part: ChatPart) => part is Part} matches
 */
function taken(parts, matches) {
  const place = parts.findIndex(matches);
  return place < 0 ? null : /** @type {Part} */ (parts.splice(place, 1)[0]);
}

/**
 * The part on record, made from the one that was shown if there is one.
 * @param {Api.Part} said
 * @param {ChatPart[]} shown
 * @returns {ChatPart | null} null for a part that is not shown
 */
function partOf(said, shown) {
  switch (said.type) {
    case "text": return settled(taken(shown, (part) => part.kind === "text") ?? newText("text"), said.text);
    case "thinking": return settled(taken(shown, (part) => part.kind === "thinking") ?? newText("thinking"), said.text);
    case "tool_call": {
      const part = settled(taken(shown, isCall(said.id)) ?? newCall(said.id, said.name), said.arguments);
      part.tool = said.name;
      part.stage = "asked";
      return part;
    }
    case "image": return { kind: "image", media: said.media_type, reference: said.reference };
    default: return null;
  }
}

/**
 * Sets a part to the text on record (invariant 2).
 * @template {Written} Part
 * @param {Part} part
 * @param {string} text
 */
function settled(part, text) {
  if (textOf(part) !== text) {
    if (part.pieces.length) part.edition += 1;
    part.pieces = [text];
  }
  part.isOpen = false;
  return part;
}

function closeAnswer(/** @type {ChatRun} */ run, /** @type {number | undefined} */ now) {
  endThought(run.parts.at(-1), now);
  for (const part of run.parts.slice(run.answerFrom ?? run.parts.length)) if ("isOpen" in part) part.isOpen = false;
  run.answerFrom = null;
}

/* Calls. */

/**
 * @param {ChatRun} run
 * @param {string} id
 * @param {(part: CallPart) => void} change
 */
function withCall(run, id, change, isLast = false) {
  const isIt = isCall(id);
  const open = isLast ? run.openCalls.findLast(isIt) : run.openCalls.find(isIt);
  const part = open ?? run.parts.findLast(isIt);
  if (part) change(part);
}

/**
 * @param {ChatRun} run
 * @param {CallPart} part
 * @param {{verdict: Api.ToolEnd, why?: Api.Refusal, result: Api.Result, remains?: Api.Remains, at: Api.Stamp}} end
 */
function closeCall(run, part, { verdict, why, result, remains, at }) {
  run.openCalls = run.openCalls.filter((open) => open !== part);
  part.stage = "over";
  part.verdict = verdict;
  part.why = why ?? null;
  part.result = result;
  part.remains = remains ?? null;
  part.took = between(part.startedAt, at);
}

/** Applies what only the receipt knows: what the stop took, and that a leaked call has ended after all. */
export function learn(/** @type {ChatRun} */ run, /** @type {Api.Receipt} */ receipt) {
  for (const { call, verdict } of receipt.calls ?? []) {
    if (verdict === "late") withCall(run, call, (part) => { part.verdict = "late"; });
  }
  const ms = (/** @type {number | null | undefined} */ us) => (us === null || us === undefined ? null : us / 1000);
  run.quietTook = ms(receipt.took?.quiet_us);
  run.settledTook = ms(receipt.took?.settled_us);
  return run;
}

/* Tokens. */

/** What a run has used, as billed: `{input, output}` (caches are part of the input), or null if no call has ended. */
export function usageOf(/** @type {ChatRun} */ run) {
  const calls = run.usage.map(({ used: { billed } }) => ({ input: read(billed), output: billed.output }));
  if (!calls.length) return null;
  return calls.reduce((a, b) => ({ input: plus(a.input, b.input), output: plus(a.output, b.output) }));
}
