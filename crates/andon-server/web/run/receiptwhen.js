// The instants of a receipt: when each was, how long it took to get there, and a bar to scale.

import { h } from "../dom.js";
import { span, spanUs } from "../words.js";
import { exactTime } from "../runwords.js";
import { wallUs } from "../instants.js";

const WIDTH = 600;

/** @typedef {[name: string, wall: string | null, us: number | null]} Instant `us` is the time since the request, in microseconds */

/** @param {Api.Receipt} receipt */
export function instantsOf(receipt) {
  const { took } = receipt;
  /** @type {Instant[]} */
  const all = [
    ["accepted", receipt.accepted_at, null],
    ["requested", receipt.requested_at, receipt.requested_at ? 0 : null],
    ["delivered", receipt.delivered_at, took.delivered_us],
    ["quiet", receipt.quiet_at, took.quiet_us],
    ["settled", receipt.settled_at, took.settled_us],
  ];
  const rows = all.filter(([name, wall]) => wall || (name === "settled" && receipt.outcome));
  const hasStop = Boolean(receipt.requested_at);
  const head = ["Instant", "Time", hasStop && "Since request", hasStop && "Since previous"].filter(Boolean);
  return [
    h("div", { class: "scroll" }, h("table", { class: "lines when" }, h("caption", { class: "unseen" }, "Times of the run"),
      h("thead", null, h("tr", null, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, rows.map((row, index) => line(row, rows[index - 1], hasStop, receipt.on_disk))))),
    hasStop ? bar(rows.slice(1)) : null,
  ];
}

/** @type {Record<string, string>} what each instant means */
const WHAT = {
  requested: "the stop was requested", delivered: "the run received it", quiet: "nothing more is accepted or started",
  settled: "everything has ended, and the outcome is on disk",
};

/**
 * @param {Instant} instant
 * @param {Instant | undefined} before
 * @param {boolean} hasStop
 * @param {boolean} isOnDisk
 */
function line([name, wall, us], before, hasStop, isOnDisk) {
  const head = h("th", { scope: "row", title: WHAT[name] }, name);
  if (!wall) {
    const words = isOnDisk ? "on disk; the time was not recorded" : "not on disk";
    return h("tr", { "data-instant": name }, head, h("td", { colspan: hasStop ? 3 : 1 }, words));
  }
  return h("tr", { "data-instant": name }, head,
    h("td", { class: "number" }, h("time", { datetime: wall, title: wall }, exactTime(wall))),
    hasStop && h("td", { class: "number" }, name === "accepted" ? "" : name === "requested" ? "0" : spanUs(us)),
    hasStop && h("td", { class: "number" }, step([name, wall, us], before)));
}

function step(/** @type {Instant} */ [, wall, us], /** @type {Instant | undefined} */ before) {
  const [, earlier = null, base = null] = before ?? [];
  if (!wall || !earlier) return "";
  if (us !== null && base !== null) return spanUs(us - base);
  // From the start to the request there is only wall time.
  return base === null && us === 0 ? `${span((wallUs(wall) - wallUs(earlier)) / 1000)} into the run` : "unknown";
}

/** From requested to settled, to scale. */
function bar(/** @type {Instant[]} */ rows) {
  /** @type {[name: string, us: number][]} */
  const known = rows.flatMap(([name, , us]) => (us === null || us === undefined ? [] : [[name, us]]));
  const [last, total] = known.at(-1) ?? ["", 0];
  if (!total) return null;
  const x = (/** @type {number} */ us) => (us / total) * WIDTH;
  const parts = known.slice(1).map(([name, us], index) => {
    const [, from] = known[index];
    return h("svg:rect", { "data-part": name, x: x(from), width: Math.max(0, x(us) - x(from)), y: 0, height: 14 });
  });
  const ends = known.map(([, us]) => h("svg:line", { x1: x(us), x2: x(us), y1: 0, y2: 20 }));
  const words = known.slice(1).map(([name, us], index) => `${known[index][0]} to ${name}: ${spanUs(us - known[index][1])}`);
  const label = `The stop, to scale. ${words.join("; ")}`;
  return h("figure", { class: "tobar" },
    h("svg:svg", { viewBox: `-1 0 ${WIDTH + 2} 20`, preserveAspectRatio: "none", role: "img", "aria-label": label }, parts, ends),
    h("figcaption", { class: "small" }, `To scale: ${spanUs(total)} from requested to ${last}. `,
      known.slice(1).map(([name]) => h("span", { class: "swatch", "data-part": name }, `until ${name}`))));
}
