// Figures: rates from counts, how numbers and durations are written, histograms. Knows no page.

const SAMPLES_MAX = 60;
// A rate is that of so long, so that it does not jump with each look.
const WINDOW_MILLIS = 10000;

// Counts as they were, by key, and what came a second. A count that falls begins anew: there was a restart, or it is another of
// that name.
export class Meter {
  #samples = new Map();

  add(key, given, at) {
    const count = Number(given);
    let samples = this.#samples.get(key);
    if (!samples || samples.at(-1).count > count) this.#samples.set(key, samples = []);
    samples.push({count, at});
    if (samples.length > SAMPLES_MAX) samples.shift();
  }

  // Null as long as there are no two counts.
  rate(key) {
    const samples = this.#samples.get(key) || [], last = samples.at(-1);
    const first = samples.find(({at}) => at >= last.at - WINDOW_MILLIS);
    return !first || first === last ? null : between(first, last);
  }

  // Rates from look to look, the newest last.
  course(key) {
    const samples = this.#samples.get(key) || [];
    return samples.slice(1).map((sample, i) => between(samples[i], sample));
  }

  // Forgets what is there no more.
  keep(keys) {
    for (const key of this.#samples.keys()) if (!keys.has(key)) this.#samples.delete(key);
  }
}

// How many of what is found did not come here: `found` is the server's count, which falls where it begins anew, `come` is what has
// come. Both are seen at about the same time, so this is about as many.
export class Missed {
  #from = null;

  count(found, come) {
    if (!this.#from || found < this.#from.found) this.#from = {found, come};
    return Math.max(0, found - this.#from.found - (come - this.#from.come));
  }
}

const between = (first, last) => last.at > first.at ? (last.count - first.count) * 1000 / (last.at - first.at) : 0;

// 0.4, 12, 1,234, 56.7k, 1.2M
export function short(given) {
  if (given === null || given === undefined) return "–";
  const number = Number(given);
  if (number < 10 && !Number.isInteger(number)) return String(Number(number.toFixed(1)));
  if (number < 9999.5) return Math.round(number).toLocaleString("en");
  const [unit, size] = [["G", 1e9], ["M", 1e6], ["k", 1e3]].find(([, size]) => number >= size * 0.9995);
  return Number((number / size).toFixed(number < 99.95 * size ? 1 : 0)).toLocaleString("en") + unit;
}

export const perSecond = rate => rate === null || rate === undefined ? "–" : short(rate) + "/s";

export function bytes(given) {
  let number = Number(given);
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 999.5 && unit < units.length - 1) { number /= 1000; unit++; }
  return (unit && number < 10 ? number.toFixed(1) : Math.round(number)) + " " + units[unit];
}

export function millis(given) {
  if (given === null || given === undefined) return "–";
  const number = Number(given);
  if (number >= 1000) return duration(number / 1000);
  return (number < 10 ? Number(number.toFixed(number < 1 ? 2 : 1)) : Math.round(number)) + " ms";
}

// The two largest units.
export function duration(seconds) {
  if (seconds < 10 && seconds % 1) return Number(seconds.toFixed(1)) + " s";
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const whole = Math.round(seconds), from = parts.findIndex(([, size]) => whole >= size);
  if (from < 0) return "0 s";
  let rest = whole;
  return parts.slice(from, from + 2).map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count ? count + " " + unit : "";
  }).filter(Boolean).join(" ");
}

const UNITS = {d: 86400, h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, µs: 1e-6, ns: 1e-9};

// A duration of the server's, as 1m30s, in seconds; null where it is none.
export function seconds(text) {
  const parts = [...String(text).matchAll(/(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)/g)];
  return parts.length ? parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0) : null;
}

// Histograms of a metric in the text that Prometheus reads, by the value of a label: steps of {from, to, count}, in milliseconds.
export function histograms(text, metric, wanted, by) {
  const all = new Map();
  for (const line of text.split("\n")) {
    if (!line.startsWith(metric + "_bucket{")) continue;
    const labels = Object.fromEntries([...line.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value.replace(/\\(.)/g, "$1")]));
    if (Object.entries(wanted).some(([name, value]) => labels[name] !== value)) continue;
    const name = labels[by], below = Number(line.slice(line.lastIndexOf(" ") + 1)), to = labels.le === "+Inf" ? Infinity : Number(labels.le) * 1000;
    if (!all.has(name)) all.set(name, {steps: [], below: 0, from: 0});
    const one = all.get(name);
    one.steps.push({from: one.from, to, count: below - one.below});
    Object.assign(one, {below, from: to});
  }
  return new Map([...all].map(([name, {steps}]) => [name, steps]));
}
