// A part of a view that is folded away where there is little space: what one came for stands first.

import { h, write } from "../dom.js";

/**
 * The button that opens a part and folds it again. Where there is space enough the style shows the part and not the button.
 * @param {string} name
 * @param {HTMLElement} element the part
 * @returns {{button: HTMLElement, count: (many: number) => void}} `count` says how much in it is set, so that nobody misses it
 */
export function folded(name, element) {
  const label = h("span", null, name);
  const button = h("button", { type: "button", class: "fold chip", "aria-expanded": "false" }, label);
  element.classList.add("foldable");
  button.addEventListener("click", () => {
    const isOpen = element.classList.toggle("unfolded");
    button.setAttribute("aria-expanded", String(isOpen));
  });
  return { button, count: (many) => write(label, many ? `${name} (${many})` : name) };
}
