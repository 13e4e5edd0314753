// One event in full, as JSON.

import { fill, h } from "../dom.js";
import { copyButton } from "../copy.js";
import { longText, pretty } from "../long.js";
import { KIND, main } from "./facts.js";
import { exactTime, since } from "../runwords.js";

/** The pane for the selected event. */
export function factPane() {
  const element = h("div", { class: "fact", tabindex: -1, role: "region", "aria-label": "Selected event" },
    h("p", { class: "soft" }, "Select an event to see it in full."));
  return {
    element,
    focus: () => element.focus(),
    show(/** @type {Api.Fact} */ fact, /** @type {number} */ at, /** @type {ToolOf} */ toolOf) {
      const json = pretty(fact);
      fill(element,
        h("div", { class: "titlebar" }, h("h3", null, `${fact.seq}: ${KIND[fact.type] ?? fact.type}`), copyButton("Copy JSON", () => json)),
        h("p", { class: "small soft" }, `${since(at)} after the run started, at `, h("time", { datetime: fact.at.wall }, exactTime(fact.at.wall))),
        h("p", null, h("bdi", null, main(fact, toolOf))),
        longText(json, { label: "JSON" }));
      element.scrollTop = 0;
    },
    /** There is no such event. */
    missing(/** @type {string} */ seq) {
      fill(element, h("p", { class: "problem" }, `There is no event ${seq} in this run.`));
    },
    showStreamed(/** @type {string} */ words, /** @type {Api.Fact} */ fact) {
      fill(element, h("h3", null, `Streamed after event ${fact.seq}`), h("p", null, words),
        h("p", { class: "soft small" }, "The full text is in the message or result that follows."));
    },
  };
}
