// The time axis of a chart: the positions and labels of its ticks.

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3,
  30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 10800e3, 21600e3, 43200e3, 86400e3];
/** @type {[number, string][]} the units of tick labels, largest first */
const UNITS = [[3600e3, "h"], [60e3, "min"], [1e3, "s"], [1, "ms"], [0.001, "µs"]];

/**
 * The ticks of a window of time.
 * @param {number} from in milliseconds
 * @param {number} to in milliseconds
 * @param {number} most how many ticks fit
 * @returns {{at: number, label: string}[]}
 */
export function ticks(from, to, most) {
  const wanted = (to - from) / Math.max(most, 1);
  const step = STEPS.find((it) => it >= wanted) ?? Math.ceil(wanted / 86400e3) * 86400e3;
  const first = Math.ceil(from / step - 1e-9);
  const found = [];
  for (let index = first; index * step <= to * (1 + 1e-12); index += 1) found.push({ at: index * step, label: label(index * step, step) });
  return found;
}

function label(/** @type {number} */ at, /** @type {number} */ step) {
  if (at === 0) return "0";
  const size = Math.abs(at);
  if (size >= 60e3 && step < 60e3) return `${Math.floor(at / 60e3)}:${pad((at % 60e3) / 1e3, step)}`;
  if (size >= 3600e3) return `${Math.floor(at / 3600e3)} h${at % 3600e3 ? ` ${Math.round((at % 3600e3) / 60e3)}` : ""}`;
  const [unit, name] = UNITS.find(([unit]) => size >= unit * (1 - 1e-9)) ?? [0.001, "µs"];
  return `${Number((at / unit).toPrecision(12))} ${name}`;
}

/** The seconds after the minutes, with as many decimals as the step needs. */
function pad(/** @type {number} */ seconds, /** @type {number} */ step) {
  const places = step >= 1e3 ? 0 : Math.ceil(-Math.log10(step / 1e3) - 1e-9);
  return seconds.toFixed(places).padStart(places ? places + 3 : 2, "0");
}

/** Maps a window of time to x positions. */
export function scale(/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ left, /** @type {number} */ right) {
  const factor = (right - left) / Math.max(to - from, 1e-6);
  const place = (/** @type {number} */ at) => left + (at - from) * factor;
  place.back = (/** @type {number} */ x) => from + (x - left) / factor;
  return place;
}
