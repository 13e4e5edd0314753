// The conversation as the provider will see it: the messages, and the request that contains them.

import { get, part, troubleOf } from "../api.js";
import { fill, h } from "../dom.js";
import { copyButton } from "../copy.js";
import { longText, pretty } from "../long.js";
import { REASON, several } from "../words.js";

/** @type {Record<string, string>} */
const FORM = {
  anthropic: "Anthropic Messages", openai_chat: "OpenAI Chat Completions", openai_responses: "OpenAI Responses", gemini: "Gemini",
  ollama: "Ollama", bedrock: "Bedrock Converse", andon: "Andon",
};
/** @type {Record<string, string>} */
const ROLE = { user: "User", assistant: "Model", tool: "Tools", system: "Instructions" };
/** @type {Record<string, string>} */
const STATUS = {
  ok: "succeeded", error: "failed", refused: "was never started", cut: "was cut", unknown: "was cut; its effect is unknown",
};
/** How many messages are shown at first: the latest ones. */
const PAGE = 50;

/**
 * @param {string} run
 * @param {AbortSignal} signal
 * @returns {{element: HTMLElement, load: () => Promise<void>}}
 */
export function conversation(run, signal) {
  const element = h("div", { class: "conversation" }, h("p", { class: "soft" }, "Loading…"));
  const load = async () => {
    try {
      const told = await get(`/v1/runs/${part(run)}/conversation`, { signal });
      fill(element, shown(told));
    } catch (error) {
      if (!signal.aborted) fill(element, trouble(error, load));
    }
  };
  return { element, load };
}

function trouble(/** @type {unknown} */ error, /** @type {() => void} */ load) {
  const { kind, message } = troubleOf(error);
  const words = kind === "no-such-path"
    ? "This server is too old to show the conversation as the provider will see it. The messages are in the Events tab."
    : message;
  return h("div", { class: "empty", role: "alert" }, h("p", null, words), h("button", { type: "button", onclick: load }, "Retry"));
}

function shown(/** @type {Api.Conversation} */ { model, form, request, messages, messages_left_out: leftOut = 0, open = [], truncated }) {
  const unsettled = open.filter((it) => it.what === "run").length;
  const json = pretty(request);
  const place = h("ol", { class: "messages" });
  const show = (/** @type {number} */ from) => fill(place, messages.slice(from).map((message, index) => messageOf(message, leftOut + from + index + 1)));
  const first = Math.max(0, messages.length - PAGE);
  show(first);
  const showAll = () => {
    earlier.remove();
    show(0);
  };
  const earlier = h("button", { type: "button", onclick: showAll }, `Show ${several(first, "earlier message")}`);
  return [
    h("p", null, "The next request to ", h("b", null, h("bdi", null, model ?? "the model")),
      ` in ${FORM[form] ?? form} format: ${several(leftOut + messages.length, "message")}.`),
    unsettled > 0 && h("p", { class: "soft" }, `${several(unsettled, "earlier run")} not settled yet: what will be added there is not known.`),
    truncated === true && h("p", { class: "soft" }, "The conversation is too long to show in full: its beginning is left out."),
    leftOut > 0 && h("p", { class: "soft" }, `The first ${several(leftOut, "message")} of these ${leftOut === 1 ? "is" : "are"} only in the request below.`),
    first > 0 && earlier, place,
    h("details", { class: "raw" }, h("summary", null, "The request, as it would be sent"),
      h("p", { class: "small soft" }, "“<the next prompt>” stands for the prompt that comes next."),
      h("div", { class: "titlebar" }, copyButton("Copy JSON", () => json)), longText(json, { label: "JSON" })),
  ];
}

function messageOf(/** @type {Api.Message} */ { role, parts, cut }, /** @type {number} */ index) {
  return h("li", { class: "message", "data-role": role, "data-cut": cut ? cut.by : null },
    h("h3", null, ROLE[role] ?? role, h("span", { class: "soft small number" }, ` ${index}`)),
    parts.map(partOf),
    cut && h("p", { class: "cut" }, `Cut here: ${cutWords(cut)}.`));
}

function cutWords(/** @type {Api.Cut} */ cut) {
  if (cut.by === "cancelled") return `stopped, ${REASON[cut.reason] ?? cut.reason}`;
  return cut.by === "broken" ? "the model’s stream broke" : "the process that read it died";
}

function partOf(/** @type {Api.Part} */ it) {
  if (it.type === "text") return longText(it.text);
  if (it.type === "thinking") {
    return h("details", null, h("summary", null, it.signature ? "Thinking" : "Thinking (unsigned, so it is not sent back)"), longText(it.text));
  }
  if (it.type === "tool_call") {
    return h("div", { class: "toolcall", "data-call": it.id },
      h("p", null, "Calls ", h("b", null, h("bdi", null, it.name)), " ", h("code", null, it.id)), longText(it.arguments));
  }
  if (it.type === "tool_result") {
    return h("div", { class: "toolcall", "data-call": it.call },
      h("p", null, h("code", null, it.call), ` ${STATUS[it.status] ?? it.status}`), it.content.map(contentOf));
  }
  if (it.type === "image") return contentOf(it);
  return longText(pretty(it));
}

const contentOf = (/** @type {Api.Content} */ it) => (it.type === "text" ? longText(it.text) : h("p", { class: "soft" }, `[image, ${it.media_type}]`));
