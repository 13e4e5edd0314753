// The cord: the button. The dialog behind it is in pull.js, which is loaded as soon as the board is ready.

import { link, may, serverIsGone } from "../api.js";
import { h } from "../dom.js";

/**
 * @param {Roster} roster
 * @param {AbortSignal} signal
 * @returns {HTMLElement | null} null if the key may not stop anything
 */
export function cord(roster, signal) {
  if (!may("run:cancel")) return null;
  const isAll = may("admin");
  const press = async () => {
    const { askToPull } = await import("./pull.js");
    if (!signal.aborted) askToPull(roster, signal, isAll);
  };
  // It has to be loaded before the server goes away: nobody should wait for a file before they can stop.
  roster.watch((changes) => { if (changes.has("ready")) import("./pull.js").catch(() => {}); }, signal);
  const name = isAll ? "Pull the cord" : "Stop all my runs";
  const how = { type: "button", class: "cord the-cord", "data-cord": true, "aria-haspopup": "dialog", onclick: press };
  const button = h("button", how, name);
  // It stays enabled: the server may have come back since we last heard.
  const draw = () => { button.title = serverIsGone() || roster.isOld ? "The server is not responding" : ""; };
  roster.watch((changes) => { if (changes.has("old")) draw(); }, signal);
  for (const kind of ["gone", "back"]) link.addEventListener(kind, draw, { signal });
  return button;
}
