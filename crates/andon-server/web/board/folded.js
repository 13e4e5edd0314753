// A part of a view that is folded away on narrow screens.

import { h, write } from "../dom.js";

/**
 * A button that unfolds a part and folds it again. On wide screens the style sheet shows the part and hides the button.
 * @param {string} name
 * @param {HTMLElement} element the part
 * @returns {{button: HTMLElement, count: (many: number) => void}} `count` shows how many of its fields are set, so that nobody misses them
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
