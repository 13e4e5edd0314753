// A text that may be long: its beginning, and all of it for who asks.

import { h } from "./dom.js";
import { number } from "./words.js";

/** How much is shown at first. */
const SHOWN = 8_000;
/** How much is put into the page at a time: the browser lays out what is seen of it. */
const PIECE = 16_000;

/**
 * @param {string} text
 * @param {Record<string, unknown>} [properties] of the element
 * @returns {HTMLElement}
 */
export function longText(text, properties) {
  const place = h("div", { dir: "auto", ...properties });
  if (text.length <= SHOWN * 1.25) {
    place.append(text);
    return place;
  }
  const rest = text.length - SHOWN;
  const all = h("button", { type: "button", class: "more", onclick: () => { all.remove(); append(place, text, SHOWN); } },
    `Show all: ${number(rest)} characters more`);
  place.append(text.slice(0, SHOWN), "…", all);
  return place;
}

function append(place, text, from) {
  place.childNodes[1]?.remove();
  let at = from;
  const some = () => {
    const end = performance.now() + 8;
    while (at < text.length && performance.now() < end) {
      place.append(h("div", { class: "plain joined" }, text.slice(at, at + PIECE)));
      at += PIECE;
    }
    if (at < text.length && place.isConnected) requestAnimationFrame(some);
  };
  some();
}
