// A run's receipt: one sheet that can be read, printed and linked to.
//
// 1. It says what the server's receipt says and nothing else; what is unknown is called unknown.
// 2. While a run has not settled, the account so far is shown, marked as such, and replaced when the run settles.

import { get, key, part, address } from "../api.js";
import { announce, fill, h } from "../dom.js";
import { follow } from "../feed.js";
import { account, isOpen } from "./account.js";
import { copyButton } from "../copy.js";
import { pretty } from "../long.js";
import { oneLine } from "./facts.js";
import { REASON, money, sentence, spanUs } from "../words.js";
import { CUT_IN, FORCE, dayOf, ending, exactTime, zone } from "../runwords.js";
import { instantsOf } from "./receiptwhen.js";
import { addendaOf, callsOf, leaksOf, requestsOf } from "./receiptparts.js";
import { usageTable } from "./usage.js";

/** @param {HTMLElement} place @param {string} id @param {AbortSignal} signal */
export async function receiptView(place, id, signal) {
  const run = await get(`/v1/runs/${part(id)}`, { signal });
  if (signal.aborted) return;
  const sheet = h("article", { class: "sheet", "aria-label": "Receipt", "data-run": id });
  /** @type {Api.Receipt | null} */
  let latest = null;
  const show = (/** @type {Api.Receipt} */ receipt) => {
    if (latest) announce(receipt.outcome && !latest.outcome ? "The run has settled." : "The receipt was updated.");
    latest = receipt;
    fill(sheet, body(run, receipt));
  };
  const books = account(id, show, signal);
  const first = await books.first;
  if (signal.aborted) return;
  fill(place, toolbar(id, () => latest ?? first), sheet);
  document.title = `Receipt of run ${id} · Andon`;
  if (first.outcome) return;
  follow(`/v1/runs/${part(id)}/events`, {
    query: { aside: true }, signal, isLast: (item) => item.type === "run_settled",
    onItems: (items) => { if (items.some(({ type }) => type !== "delta")) books.look(); },
  });
}

function toolbar(/** @type {string} */ id, /** @type {() => Api.Receipt} */ latest) {
  const save = h("a", { class: "button", download: `receipt-${id}.json`, href: address(`/v1/runs/${part(id)}/receipt`).href }, "Download JSON");
  // A link cannot send a key, so with a key the receipt on the screen is saved.
  save.addEventListener("click", (event) => {
    if (!key.get()) return;
    event.preventDefault();
    saveAs(`receipt-${id}.json`, pretty(latest()));
  });
  return h("div", { class: "toolbar noprint", role: "toolbar", "aria-label": "Receipt" },
    h("a", { class: "button", href: `#/run/${part(id)}` }, "← Run"),
    h("span", { class: "gap" }),
    h("button", { type: "button", onclick: () => print() }, "Print"),
    copyButton("Copy link", () => `${location.origin}${location.pathname}#/run/${part(id)}/receipt`), save);
}

function saveAs(/** @type {string} */ name, /** @type {string} */ text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function body(/** @type {Api.Run} */ run, /** @type {Api.Receipt} */ receipt) {
  return [
    head(run, receipt),
    section("The stop", stop(receipt)),
    section("Times", instantsOf(receipt)),
    receipt.requests.length > 1 ? section("Stop requests, in order", requestsOf(receipt)) : null,
    section("Tool calls", callsOf(receipt)),
    section("Tokens", usageTable(receipt)),
    section("Leaks", leaksOf(receipt)),
    section(`Addenda (revision ${receipt.revision})`, addendaOf(receipt)),
    h("footer", { class: "small" },
      `Built from the run’s journal alone. Times are in ${zone()}; durations are measured with a monotonic clock.`),
  ];
}

const section = (/** @type {string} */ name, /** @type {unknown[]} */ ...what) => h("section", null, h("h2", null, name), what);

function head(/** @type {Api.Run} */ run, /** @type {Api.Receipt} */ receipt) {
  const { session, outcome } = receipt;
  return h("header", null,
    h("p", { class: "kicker" }, h("span", null, "Andon"), h("span", null, "Receipt")),
    h("h1", null, h("bdi", null, oneLine(run.title) || "Run without a prompt")),
    h("p", { class: "verdict", "data-outcome": outcome?.kind ?? "open" }, outcome ? sentence(ending(outcome)) : "Not settled yet: the account so far"),
    definitions([
      ["Run", h("code", null, receipt.run), "wholerow"],
      ["Agent", h("bdi", null, session.app)], ["User", h("bdi", null, session.user)], ["Session", h("bdi", null, session.session)],
      ["Date", h("time", { datetime: receipt.accepted_at }, dayOf(receipt.accepted_at))],
      ["Duration", `${spanUs(receipt.run_us)}${outcome ? "" : " so far"}`],
      receipt.cost ? ["Cost", money(receipt.cost)] : null,
      outcome && isOpen(receipt) ? ["Pending", "more may become known; this page keeps checking for 30 seconds"] : null,
    ]));
}

/** @typedef {[name: string, what: HTMLElement | string, size?: string]} Definition */

function definitions(/** @type {(Definition | null)[]} */ pairs) {
  const pair = (/** @type {Definition} */ [name, what, size]) => h("div", { class: size ?? null }, h("dt", null, name), h("dd", null, what));
  return h("dl", null, pairs.filter((it) => it !== null).map(pair));
}

function stop(/** @type {Api.Receipt} */ receipt) {
  if (!receipt.requested_at) {
    return h("p", null, receipt.outcome ? "This run was not stopped." : "No stop has been requested.");
  }
  const { by, reason, note, force, cut_in: where } = receipt;
  return definitions([
    ["Stopped by", by ? h("bdi", null, by) : "unknown"],
    ["Reason", `${REASON[reason ?? ""] ?? reason} (${reason})`],
    note ? ["Note", h("q", null, h("bdi", null, note))] : null,
    ["Force", FORCE[force ?? ""] ?? force],
    ["Phase", CUT_IN[where ?? ""] ?? where ?? "unknown"],
    ["Requested", h("time", { datetime: receipt.requested_at }, exactTime(receipt.requested_at))],
  ]);
}
