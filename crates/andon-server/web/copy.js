// A button that copies a text and says whether that worked.

import { announce, h } from "./dom.js";

/**
 * @param {string} label
 * @param {() => string} text called on each press for the text to copy
 */
export function copyButton(label, text) {
  const button = h("button", { type: "button", class: "noprint" }, label);
  button.addEventListener("click", async () => {
    const done = await copy(text());
    button.textContent = done ? "Copied" : "Copy failed";
    announce(button.textContent);
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

async function copy(/** @type {string} */ text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Some browsers do not allow this on pages loaded over plain HTTP. The old way still works there.
    return copyTheOldWay(text);
  }
}

function copyTheOldWay(/** @type {string} */ text) {
  const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
