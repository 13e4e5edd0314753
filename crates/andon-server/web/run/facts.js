// A fact of a run in words: its kind, and the main thing it says.

import { REASON, number, span } from "../words.js";
import { FORCE_WORD, HOW, REFUSED, ending } from "../runwords.js";

/** The most characters in a line. */
const LINE = 240;

/** @type {Record<string, string>} the kinds of facts, in words */
export const KIND = {
  run_accepted: "run accepted", run_started: "run started", hook_started: "hook started", hook_finished: "hook ended",
  model_started: "model called", message: "message", usage: "usage", model_finished: "model call ended",
  backoff_started: "waiting to retry", backoff_finished: "retrying", approval_requested: "approval requested",
  approval_resolved: "approval decided", tool_started: "tool started", tool_finished: "tool ended", tool_refused: "tool not started",
  call_cancel_requested: "call stop requested", cancel_requested: "stop requested", run_quieted: "quiet", grace_ended: "grace over",
  run_settled: "settled", text_lost: "text lost", streamed: "streamed",
};

/** A text in one line, shortened. */
export function oneLine(/** @type {string | null | undefined} */ text) {
  const head = String(text ?? "").slice(0, LINE * 2).replace(/\s+/g, " ").trim();
  return head.length > LINE || String(text ?? "").length > LINE * 2 ? `${head.slice(0, LINE)}…` : head;
}

/** What a message says, in one line. */
export function messageLine(/** @type {Api.Message} */ { parts, cut }) {
  const said = parts.map((part) => {
    if (part.type === "tool_call") return `→ ${part.name}(${oneLine(part.arguments)})`;
    if (part.type === "tool_result") return contentLine(part.content);
    if (part.type === "thinking") return `(thinking: ${oneLine(part.text)})`;
    return "text" in part ? part.text : `[${part.media_type ?? part.type}]`;
  });
  return `${cut ? "cut: " : ""}${oneLine(said.map((text) => text.slice(0, LINE)).join(" "))}`;
}

const contentLine = (/** @type {Api.Content[]} */ content) =>
  oneLine(content.map((part) => ("text" in part ? part.text : `[${part.media_type}]`).slice(0, LINE)).join(" "));
const asked = (/** @type {Api.CancelRequest} */ { reason, force, by, note }) =>
  [FORCE_WORD[force] ?? force, REASON[reason] ?? reason, by ? `by ${by}` : "", note ? `“${oneLine(note)}”` : ""].filter(Boolean).join(", ");
const tokens = (/** @type {Api.Figure} */ figure) => (figure.value === null ? (figure.low === null ? "?" : `≥ ${number(figure.low)}`) : number(figure.value));

/** @typedef {Record<string, ((fact: Api.Fact, tool: ToolOf) => string) | undefined>} Table of facts of any type */

/** @type {{[Type in Api.Fact["type"]]?: (fact: Api.FactOf<Type>, tool: ToolOf) => string}} */
const MAIN = {
  run_accepted: ({ accepted }) => messageLine(accepted.input),
  hook_started: ({ point }) => point.replace("_", " "),
  hook_finished: ({ point, end, change, why }) => `${point.replace("_", " ")}: ${HOW[end] ?? end}${change ? ` the ${change.what}` : ""}${why ? `: ${oneLine(why)}` : ""}`,
  model_started: ({ call, model }) => `${model}, call ${call}`,
  message: ({ message }) => messageLine(message),
  usage: ({ call, used, pending }) =>
    `call ${call}: ${tokens(used.billed.input)} in, ${tokens(used.billed.output)} out${pending ? ", a better figure is pending" : ""}`,
  model_finished: ({ call, end, first_piece_us }) =>
    `call ${call}: ${HOW[end.how] ?? end.how}${end.how === "failed" ? `: ${oneLine(end.failure.message)}` : ""}` +
    `${first_piece_us === null ? "" : `, first token after ${span(first_piece_us / 1000)}`}`,
  backoff_started: ({ delay_ms }) => span(delay_ms),
  approval_requested: ({ call }, tool) => `${tool(call)} ${call}`,
  approval_resolved: ({ call, verdict: it }, tool) => {
    const [by, why] = ["by" in it && it.by ? ` by ${it.by}` : "", "why" in it && it.why ? `: ${oneLine(it.why)}` : ""];
    return `${tool(call)} ${call}: ${HOW[it.verdict] ?? it.verdict}${by}${why}`;
  },
  tool_started: ({ call }, tool) => `${tool(call)} ${call}`,
  tool_finished: ({ call, end, result }, tool) => `${tool(call)} ${call}: ${HOW[end] ?? end}: ${contentLine(result.content)}`,
  tool_refused: ({ call, why }, tool) => `${tool(call)} ${call}: ${REFUSED[why] ?? why}`,
  call_cancel_requested: ({ call, request }, tool) => `${tool(call)} ${call}: ${asked(request)}`,
  cancel_requested: ({ request }) => asked(request),
  grace_ended: ({ calls }, tool) => calls.map(tool).join(", "),
  run_settled: ({ outcome }) => ending(outcome),
};

/**
 * The main thing that a fact says, in one line.
 * @param {Api.Fact} record
 * @param {ToolOf} toolOf
 */
export function main(record, toolOf) {
  try {
    return /** @type {Table} */ (MAIN)[record.type]?.(record, toolOf) ?? "";
  } catch {
    // A fact from a newer server: its JSON shows what it is.
    return "";
  }
}
