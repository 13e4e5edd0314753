// The stop, magnified: its four instants on their own scale, with what was still going on between them.
//
// 1. Nothing is shown until a stop was requested, and no instant before it is on record.
// 2. The durations are measured with one clock, and written out.

import { fill, h, write } from "../dom.js";
import { span } from "../words.js";
import { drawing } from "./drawing.js";

const NEXT = ["requested", "delivered", "quiet", "settled"];

/** @returns {{element: HTMLElement, draw: (trace: import("./trace.js").Trace, now: number) => void}} */
export function stopInset() {
  let asked = 0;
  const chart = drawing({ label: "The stop, magnified: times since it was requested", zero: () => asked, onDetail: (text) => write(detail, text) });
  const detail = h("p", { class: "detail small", "aria-hidden": "true" });
  const list = h("ol", { class: "steps" });
  const element = h("section", { class: "inset", "aria-label": "The stop, magnified", hidden: true },
    h("h3", null, "The stop, magnified"), list, chart.element, detail);
  let known = "";
  return {
    element,
    draw(trace, now) {
      const found = NEXT.flatMap((name) => trace.marks.find((mark) => mark.name === name) ?? []);
      const [first] = found;
      element.hidden = first?.name !== "requested";
      if (element.hidden) return;
      asked = first.at;
      const last = trace.isSettled ? Math.max(found[found.length - 1].at, trace.latest) : now;
      const length = Math.max(last - asked, 0.001);
      chart.draw(trace, { from: asked - length * 0.06, to: last + length * 0.12 }, now);
      const words = found.map(({ name, at }) => `${name} ${at}`).join();
      if (words !== known) fill(list, steps(found));
      known = words;
    },
  };
}

function steps(/** @type {Mark[]} */ found) {
  const [requested, last] = [found[0], found[found.length - 1]];
  const total = last.name === "settled" && found.length > 1
    ? h("li", { class: "total" }, h("span", null, "requested → settled"), h("b", { class: "number" }, span(last.at - requested.at))) : null;
  const each = found.slice(1).map((mark, index) => h("li", null,
    h("span", null, `${found[index].name} → ${mark.name}`), h("b", { class: "number" }, span(mark.at - found[index].at))));
  return [...each, total];
}
