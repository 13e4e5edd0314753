// The warning above the rows that the journal does not accept writes: how many runs have stalled, and why.

import { h, write } from "../dom.js";
import { several, shownState } from "../words.js";

/**
 * @param {Roster} roster
 * @param {AbortSignal} signal
 * @returns {HTMLElement}
 */
export function journalBar(roster, signal) {
  const element = h("p", { class: "journal", role: "status", hidden: true });
  const draw = () => {
    const stalled = roster.live().filter(({ row }) => shownState(row) === "stalled");
    element.hidden = stalled.length === 0;
    write(element, stalled.length ? inWords(stalled) : "");
  };
  roster.watch((changes) => { if (changes.has("rows") || changes.has("ready")) draw(); }, signal);
  return element;
}

function inWords(/** @type {Entry[]} */ stalled) {
  const [{ row }] = stalled;
  const [have, they] = stalled.length === 1 ? ["has", "It will settle on its own"] : ["have", "They will settle on their own"];
  return `The journal does not accept writes: ${several(stalled.length, "run")} ${have} stalled. ${they} once it accepts writes again. ` +
    `The server says: ${row.stalled}.`;
}
