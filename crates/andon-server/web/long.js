// Texts of any length, shown in pieces so that nothing freezes.
//
// 1. Of a text longer than `SHORT` only the beginning is shown, with a button that says how long it is.
// 2. The rest is inserted piece by piece, a few per frame. Pieces out of view are not laid out.
// 3. Characters that change the text direction affect only the text that they are in.

import { everyFrame, h } from "./dom.js";
import { size } from "./runwords.js";

const SHORT = 6000;
const PIECE = 16_000;
const PIECES_A_FRAME = 2;

/** @typedef {(text: string) => string} Drawn how a piece of a text is shown; lengths are those of the text as it was written */

/**
 * A text in an element.
 * @param {string} text
 * @param {{short?: number, label?: string, drawn?: Drawn}} [how]
 */
export function longText(text, { short = SHORT, label, drawn = String } = {}) {
  const piece = (/** @type {number} */ from, /** @type {number} */ to) => h("pre", null, drawn(text.slice(from, to)));
  const place = h("div", { class: "long", dir: "auto", "aria-label": label });
  if (text.length <= short) {
    place.append(piece(0, text.length));
    return place;
  }
  const end = whole(text, short);
  const onclick = () => all(place, rest, text, end, piece);
  const rest = h("button", { type: "button", class: "plain showall", onclick }, `Show all ${size(text.length)}`);
  place.append(piece(0, end), rest);
  return place;
}

/**
 * Inserts the rest of a text.
 * @param {HTMLElement} place
 * @param {HTMLButtonElement} button
 * @param {string} text
 * @param {number} from
 * @param {(from: number, to: number) => HTMLElement} piece
 */
function all(place, button, text, from, piece) {
  button.disabled = true;
  let at = from;
  const more = everyFrame(() => {
    if (!place.isConnected) return;
    for (let count = 0; count < PIECES_A_FRAME && at < text.length; count += 1) {
      const end = edge(text, at);
      place.insertBefore(piece(at, end), button);
      at = end;
    }
    if (at < text.length) {
      button.textContent = `${Math.floor((at / text.length) * 100)}% of ${size(text.length)}…`;
      more();
    } else button.remove();
  });
  more();
}

/** Where a piece that starts here ends: after a line if possible. */
function edge(/** @type {string} */ text, /** @type {number} */ at) {
  const end = whole(text, Math.min(at + PIECE, text.length));
  if (end >= text.length) return text.length;
  const line = text.lastIndexOf("\n", end - 1);
  return line > at ? line + 1 : end;
}

/** Never splits a surrogate pair. */
function whole(/** @type {string} */ text, /** @type {number} */ at) {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}

/** A value as indented JSON. Characters that change the text direction are escaped, so that the order on screen is the real one. */
export function pretty(/** @type {unknown} */ value) {
  const hidden = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g;
  return JSON.stringify(value, null, 2).replace(hidden, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
