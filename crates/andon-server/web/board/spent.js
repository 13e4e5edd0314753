// What the runs of a list used and cost, read from their receipts as they come into view.
//
// 1. An unknown figure is never shown as 0: a run that has not settled has no figures yet.
// 2. Only a few requests are sent at a time: browsers limit connections, and a Stop must still get through.

import { get, part } from "../api.js";
import { write } from "../dom.js";
import { figure, figureInFull, money, moneyInFull, read } from "../words.js";

const AT_ONCE = 2;

/** @typedef {{tokens: HTMLElement, cost: HTMLElement}} Cells */
/** @typedef {{row: HTMLElement, run: Api.Run, cells: Cells}} Line */

/**
 * Fills in the cells of rows as they come into view.
 * @param {() => void} onCost called when there is a cost, which means that the server has prices
 * @param {AbortSignal} signal
 * @returns {(row: HTMLElement, run: Api.Run, cells: Cells) => void}
 */
export function spending(onCost, signal) {
  /** @type {Line[]} */
  const waiting = [];
  let busy = 0;
  /** @type {WeakMap<Element, Line>} */
  const rows = new WeakMap();
  const sight = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) {
      if (!isIntersecting) continue;
      sight.unobserve(target);
      const line = rows.get(target);
      if (line) waiting.push(line);
    }
    work();
  });
  signal.addEventListener("abort", () => sight.disconnect(), { once: true });
  const work = async () => {
    if (busy >= AT_ONCE) return;
    busy += 1;
    for (let next = waiting.shift(); next && !signal.aborted; next = waiting.shift()) {
      // Skip rows that have been removed meanwhile.
      if (next.row.isConnected && (await tell(next, signal))) onCost();
    }
    busy -= 1;
  };
  return (row, run, cells) => {
    rows.set(row, { row, run, cells });
    if (run.outcome) sight.observe(row);
    else for (const cell of Object.values(cells)) cell.title = "not known until the run settles";
  };
}

/** Writes what one run used; returns whether the server knows the cost. */
async function tell(/** @type {Line} */ { run, cells }, /** @type {AbortSignal} */ signal) {
  const receipt = await get(`/v1/runs/${part(run.run_id)}/receipt`, { signal }).catch(() => null);
  const billed = receipt?.usage?.billed;
  if (!billed) return false;
  const input = read(billed);
  write(cells.tokens, `${figure(input)} / ${figure(billed.output)}`);
  cells.tokens.title = `input ${figureInFull(input)}; output ${figureInFull(billed.output)}`;
  write(cells.cost, money(receipt.cost));
  cells.cost.title = moneyInFull(receipt.cost);
  return Boolean(receipt.cost);
}
