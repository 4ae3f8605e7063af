// How long results took, by stage: percentiles, and a histogram of each drawn as bars. It is asked for while it is looked at.

import {make} from "../explorer/dom.js";
import {histograms, millis, short} from "./figures.js";
import {put, Rows, set, spot, svg} from "./parts.js";
import {graphInFigures} from "../explorer/query.js";
import {metrics} from "./server.js";

const STAGES = [["commit", "until it is committed"], ["durable", "until it outlives the process"], ["dataflow", "until the result is found"], ["delivered", "until an output has it"], ["whole", "all of the way"]];
const BAR = 22, HIGH = 64;

export function latencyTab(name) {
  const list = make("div", {className: "stages"}), none = make("p", {className: "soft"}, "No result has been measured yet."), rows = new Rows(list, stageRow);
  let asking = false;
  return {element: make("div", {}, none, list), async update({stats}) {
    const told = stats.local?.latency || {};
    none.hidden = Object.keys(told).length > 0;
    if (asking) return;
    asking = true;
    const text = await metrics().catch(() => "");
    asking = false;
    const bars = histograms(text, "weir_standing_latency_seconds", {namespace: graphInFigures(), query: name}, "stage");
    rows.update(STAGES.filter(([stage]) => told[stage]).map(([stage, about]) => ({name: stage, about, figures: told[stage], bars: bars.get(stage) || []})));
  }};
}

function stageRow({name, about}) {
  const figures = spot("soft"), picture = svg("svg", {class: "histogram", role: "img"});
  return {elements: [make("section", {}, make("h4", {}, name + ": ", make("span", {className: "soft"}, about)), picture, make("p", {}, figures))], update({figures: told, bars}) {
    put(figures, `p50 ${millis(told.p50Millis)} · p90 ${millis(told.p90Millis)} · p99 ${millis(told.p99Millis)} · p99.9 ${millis(told.p999Millis)} · most ${millis(told.maxMillis)} · ${short(told.count)} results`);
    draw(picture, bars, name);
  }};
}

const bound = ms => ms === Infinity ? "more" : ms >= 1000 ? ms / 1000 + " s" : ms < 1 ? ms * 1000 + " µs" : ms + " ms";

// A bar for each step, each as high as its share; the number of bars stays, so they are only changed.
function draw(picture, bars, name) {
  const used = bars.findLastIndex(({count}) => count) + 1, shown = bars.slice(0, Math.max(used, 1)), all = bars.reduce((sum, {count}) => sum + count, 0), most = Math.max(1, ...shown.map(({count}) => count));
  set(picture, {viewBox: `0 0 ${Math.max(1, shown.length) * (BAR * 2)} ${HIGH + 18}`, width: Math.max(1, shown.length) * BAR * 2, height: HIGH + 18, "aria-label": `${name}: ` + shown.filter(({count}) => count).map(({from, to, count}) => `${bound(from)} to ${bound(to)}: ${count}`).join(", ")});
  while (picture.childElementCount > shown.length) picture.lastChild.remove();
  shown.forEach(({from, to, count}, i) => {
    if (!picture.children[i]) picture.append(svg("g", {}, svg("title"), svg("rect", {rx: 2}), svg("text", {"text-anchor": "middle"})));
    const [title, bar, label] = picture.children[i].children, height = count ? Math.max(2, HIGH * count / most) : 0;
    set(bar, {x: i * BAR * 2 + 3, y: HIGH - height, width: BAR * 2 - 6, height});
    set(label, {x: i * BAR * 2 + BAR, y: HIGH + 14});
    put(label, to === Infinity ? "…" : bound(to).replace(" ", ""));
    put(title, `${bound(from)} to ${bound(to)}: ${count.toLocaleString("en")} results, ${all ? (100 * count / all).toFixed(1) : 0} %`);
  });
}
