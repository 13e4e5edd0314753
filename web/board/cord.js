// The cord, in sight: the button. What it asks and does is in pull.js, which is loaded as soon as the board is there.

import { link, may, serverIsGone } from "../api.js";
import { h } from "../dom.js";

/**
 * @param {import("./roster.js").Roster} roster
 * @param {AbortSignal} signal
 * @returns {HTMLElement | null} nothing for who may not stop anything
 */
export function cord(roster, signal) {
  if (!may("run:cancel")) return null;
  const isAll = may("admin");
  const press = async () => {
    const { askToPull } = await import("./pull.js");
    if (!signal.aborted) askToPull(roster, signal, isAll);
  };
  // It must be there when the server is not: nobody waits for a file before they can stop.
  roster.watch((changes) => { if (changes.has("ready")) import("./pull.js").catch(() => {}); }, signal);
  const name = isAll ? "Pull the cord" : "Stop all my runs";
  const how = { type: "button", class: "cord the-cord", "data-cord": true, "aria-haspopup": "dialog", onclick: press };
  const button = h("button", how, name);
  // It can be tried all the same: that the server is gone is only what was last known.
  const draw = () => { button.title = serverIsGone() || roster.isOld ? "The server is not responding" : ""; };
  roster.watch((changes) => { if (changes.has("old")) draw(); }, signal);
  for (const kind of ["gone", "back"]) link.addEventListener(kind, draw, { signal });
  return button;
}
