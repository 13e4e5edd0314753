// Tabs: one of several panels is shown. The arrow keys move from tab to tab.

import { h, set } from "../dom.js";

let sets = 0;

/**
 * @param {{name: string, element: HTMLElement, onShow?: () => void}[]} panels
 * @param {string} label
 */
export function tabs(panels, label) {
  sets += 1;
  const id = (/** @type {string} */ kind, /** @type {number} */ index) => `tabs-${sets}-${kind}-${index}`;
  let current = 0;
  const buttons = panels.map(({ name }, index) => h("button", {
    type: "button", role: "tab", id: id("tab", index), "aria-controls": id("panel", index), onclick: () => show(index),
  }, name));
  const places = panels.map(({ element }, index) => h("div", { role: "tabpanel", id: id("panel", index), "aria-labelledby": id("tab", index) }, element));
  const show = (/** @type {number} */ index, isFirst = false) => {
    const isNew = index !== current || isFirst;
    current = index;
    buttons.forEach((button, at) => {
      set(button, "aria-selected", String(at === index));
      set(button, "tabindex", at === index ? 0 : -1);
      places[at].hidden = at !== index;
    });
    if (isNew) panels[index].onShow?.();
  };
  const row = h("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons);
  row.addEventListener("keydown", (event) => {
    /** @type {Record<string, number>} */
    const keys = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: panels.length - 1 };
    const wanted = keys[event.key];
    if (wanted === undefined) return;
    event.preventDefault();
    const next = (wanted + panels.length) % panels.length;
    show(next);
    buttons[next].focus();
  });
  show(0, true);
  return { element: h("section", { class: "card tabbed" }, row, places), show, shown: () => current };
}
