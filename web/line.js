// The line, always in sight: open or held, by whom, since when and why; and the means to hold and open it.
//
// 1. It shows what the server said last, and nothing that was only asked for.
// 2. Every hold is shown with a way to open it, for who may.

import { call, link, may } from "./api.js";
import { dialog, openLine } from "./cord.js";
import { fill, h, write } from "./dom.js";
import { dayAndTime, timeOfDay } from "./words.js";

/** The line's bar, without the cord. */
export function lineBar(roster, signal) {
  const element = h("div", { class: "line-state", "data-line-state": "unknown" });
  const draw = () => {
    const { line } = roster;
    if (!line) return;
    element.dataset.lineState = line.state;
    const isMine = may("admin");
    const all = line.holds.filter(({ app, user }) => !app && !user);
    const some = line.holds.filter(({ app, user }) => app || user);
    const lamp = h("span", { class: "state", "data-state": line.state === "held" ? "cancelling" : "running" }, line.state === "held" ? "The line is held" : "The line is open");
    const hold = isMine && h("button", { type: "button", class: "plain", "data-line-hold": true, onclick: () => ask(roster, signal) }, "Hold…");
    fill(element, lamp, all.map((one) => held(roster, one, isMine)), hold, some.map((one) => held(roster, one, isMine)));
  };
  roster.watch((changes) => { if (changes.has("line")) draw(); }, signal);
  draw();
  return element;
}

/** One hold in words: "for all, by ada since 12:00: reason". */
function held(roster, hold, isMine) {
  const said = h("span", { role: "status" });
  const open = h("button", { type: "button", class: "small", "data-line-open": true, onclick: () => openLine(roster, hold, said, open) }, "Open");
  const on = hold.app ? ["agent ", h("bdi", null, hold.app), " held"] : hold.user ? ["user ", h("bdi", null, hold.user), " held"] : hold.tenant ? ["tenant ", h("bdi", null, hold.tenant), " held"] : [];
  const isToday = new Date(hold.since).toDateString() === new Date().toDateString();
  return h("span", { class: "hold small" }, on, " by ", h("bdi", null, hold.by), ` since ${isToday ? timeOfDay(hold.since) : dayAndTime(hold.since)}`,
    hold.reason && [": ", h("bdi", { class: "clip", title: hold.reason }, hold.reason)], " ", isMine && open, said);
}

/** Holds without stopping: for all, an agent or a user. */
function ask(roster, signal) {
  const names = (field) => [...new Set([...roster.entries.values()].map(({ row }) => row[field]))].sort().slice(0, 300);
  const on = h("select", { id: "hold-on" }, h("option", { value: "" }, "Everything"),
    h("optgroup", { label: "An agent" }, names("app").map((name) => h("option", { value: `app ${name}` }, name))),
    h("optgroup", { label: "A user" }, names("user").map((name) => h("option", { value: `user ${name}` }, name))));
  const why = h("input", { id: "hold-why", autocomplete: "off", maxlength: 500 });
  const said = h("p", { class: "problem", role: "alert" });
  const { box, close } = dialog("Hold the line", signal);
  const go = async () => {
    const [field, name] = on.value ? [on.value.slice(0, on.value.indexOf(" ")), on.value.slice(on.value.indexOf(" ") + 1)] : [];
    const body = { state: "held", ...(field && { [field]: name }), ...(why.value.trim() && { reason: why.value.trim() }) };
    try {
      roster.setLine(await call("PUT", "/v1/line", { body }));
      close();
    } catch (error) {
      write(said, `${error.body?.held ? "The line is held. " : ""}${error.message}`);
    }
    link.dispatchEvent(new Event("line"));
  };
  fill(box, h("h1", null, "Hold the line"), h("p", null, "New runs are refused until it is opened. What runs goes on."),
    h("label", { for: "hold-on" }, "For"), on, h("label", { for: "hold-why" }, "Why, for those who are turned away (may be empty)"), why, said,
    h("div", { class: "buttons" }, h("button", { type: "button", class: "strong", onclick: go }, "Hold it"), h("button", { type: "button", onclick: close }, "Leave it")));
}
