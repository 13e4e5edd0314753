// Holds the line without stopping anything: for everything, an agent or a user.

import { call, link, troubleOf } from "../api.js";
import { button, dialog } from "./dialog.js";
import { fill, h, write } from "../dom.js";

/** The most names in a list. */
const MOST = 300;

/**
 * @param {Roster} roster
 * @param {AbortSignal} signal
 */
export function askToHold(roster, signal) {
  const { box, close } = dialog("Hold the line", signal);
  const on = h("select", { id: "hold-on" }, h("option", { value: "" }, "Everything"),
    group("Agents", "app", roster), group("Users", "user", roster));
  const why = h("input", { id: "hold-why", autocomplete: "off", maxlength: 500 });
  const said = h("p", { class: "problem", role: "alert" });
  const go = async () => {
    const reason = why.value.trim();
    const body = { state: "held", ...(on.value && JSON.parse(on.value)), ...(reason && { reason }) };
    try {
      roster.setLine(await call("PUT", "/v1/line", { body }));
      close();
    } catch (error) {
      // The hold may have taken effect even if it is not on disk.
      const { body: problem, message } = troubleOf(error);
      write(said, `${problem?.held ? "The line is held. " : ""}${message}`);
    }
    link.dispatchEvent(new Event("line"));
  };
  fill(box, h("h1", null, "Hold the line"), h("p", null, "New runs are refused until the line is opened. Current runs continue."),
    h("label", { for: "hold-on" }, "Apply to"), on,
    h("label", { for: "hold-why" }, "Reason (optional, shown to anyone who is turned away)"), why, said,
    h("div", { class: "buttons" },
      button("Hold the line", go, { class: "strong", "data-hold-confirm": true }), button("Cancel", close)));
}

function group(/** @type {string} */ label, /** @type {"app" | "user"} */ field, /** @type {Roster} */ roster) {
  const names = [...new Set([...roster.entries.values()].map(({ row }) => row[field]))].sort().slice(0, MOST);
  return h("optgroup", { label }, names.map((name) => h("option", { value: JSON.stringify({ [field]: name }) }, name)));
}
