// The panel beside the canvas: what is chosen, with labels, typed properties, and edges by type to go on along.

import {at, button, COPY, copy, count, icon, make, putLong} from "./dom.js";
import {inkOn} from "./draw.js";
import {edgeCounts, kindOfNode} from "./rules.js";
import {kindOf, shown, write} from "./values.js";

const VALUE_MAX = 300, EDGE_TYPES_MAX = 40;
let acts = null, shownFor = null, shownAs = "";

// `given`: query({text, parameters}), expand(node, type, out, edges), refresh(nodes), remove(), unpin(nodes), choose(ids) and
// caption(id).
export function prepare(given) { acts = given; }

export function show(nodes, edge) {
  const panel = at("panel"), one = nodes.length === 1 ? nodes[0] : null, focused = panel.contains(document.activeElement) ? named(document.activeElement) : null;
  panel.hidden = !nodes.length && !edge;
  if (panel.hidden) {
    if (focused !== null) at("canvas").focus({preventScroll: true});
    return forget();
  }
  // What has not changed stays as it is, opened and scrolled as somebody left it.
  const now = one ? write([one.labels, one.properties, one.caption, one.color, Boolean(one.pinned), Boolean(one.gone)]) : "";
  if (one && one === shownFor && now === shownAs) return;
  shownAs = now;
  const content = edge && !nodes.length ? ofEdge(edge) : one ? ofNode(one) : ofMany(nodes);
  panel.replaceChildren(...content);
  if (focused === null) return;
  // Whoever pressed a button with the keyboard goes on from there, or from the first of what can be done.
  const all = [...panel.querySelectorAll("button")];
  (all.find(one => named(one) === focused) || panel.querySelector(".buttons button") || all[0]).focus({preventScroll: true});
}

const named = element => element.ariaLabel || element.textContent;

// The next time everything is shown anew.
export function forget() { shownFor = null; }

function head(title, ...more) {
  return make("div", {className: "panel-head"}, ...title, make("span", {className: "gap"}), ...more, button("×", () => acts.choose([]), {className: "plain", ariaLabel: "Close"}));
}

function chip(text, color) {
  const element = make("span", {className: "chip"}, text);
  if (color) { element.style.background = color; element.style.color = `rgb(${inkOn(rgbOf(color))})`; }
  return element;
}

const pen = make("canvas", {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});

// What a colour of a rule, by name or half transparent as it may be, looks like on the panel.
function rgbOf(color) {
  for (const one of [getComputedStyle(document.documentElement).getPropertyValue("--card").trim(), color]) {
    pen.fillStyle = one;
    pen.fillRect(0, 0, 1, 1);
  }
  return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

function ofNode(node) {
  const edges = make("div", {className: "edges"}, make("p", {className: "soft"}, "…"));
  shownFor = node;
  acts.query(edgeCounts(node.id)).then(({rows}) => { if (shownFor === node) edges.replaceChildren(...edgeRows(node, rows)); },
    error => edges.replaceChildren(make("p", {className: "wrong"}, error.message)));
  return [head(node.labels.length ? node.labels.map(label => chip(label, node.color)) : [make("span", {className: "soft"}, kindOfNode(node))]),
    make("h2", {}, node.caption),
    make("p", {className: "id"}, make("code", {}, node.id), button(icon(COPY), () => copy(node.id, "The id is copied"), {className: "plain icon", ariaLabel: "Copy the id", title: "Copy"})),
    make("div", {className: "buttons"}, button("Refresh", () => acts.refresh([node])), node.pinned ? button("Unpin", () => acts.unpin([node])) : null, button("Remove", acts.remove, {title: "From the canvas; the graph stays as it is (Delete)"})),
    make("h3", {}, "Properties"), properties(node.properties), make("h3", {}, "Edges"), edges];
}

function properties(map) {
  const keys = Object.keys(map).sort();
  if (!keys.length) return make("p", {className: "soft"}, "None.");
  return make("table", {}, make("tbody", {}, ...keys.map(key => {
    const value = map[key], kind = kindOf(value), line = shown(value), text = (kind === "list" || kind === "map") && line.length > 30 ? write(value, "  ") : line;
    const content = putLong(make("span", {className: "value " + kind}), text, VALUE_MAX);
    return make("tr", {}, make("th", {scope: "row"}, key, make("div", {className: "soft"}, kind)),
      make("td", {}, content), make("td", {}, button(icon(COPY), () => copy(shown(value), key + " is copied"), {className: "plain icon", ariaLabel: "Copy " + key, title: "Copy"})));
  })));
}

function edgeRows(node, rows) {
  if (!rows.length) return [make("p", {className: "soft"}, "None.")];
  rows.sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0);
  const list = rows.slice(0, EDGE_TYPES_MAX).map(([type, out, number]) => make("div", {className: "edge-row"},
    make("span", {title: out ? "outgoing" : "incoming", ariaLabel: out ? "outgoing" : "incoming"}, out ? "→" : "←"), make("span", {className: "type"}, type),
    make("span", {className: "soft"}, Number(number).toLocaleString("en")), button("Expand", () => acts.expand(node, type, out, Number(number)), {ariaLabel: `Expand ${out ? "outgoing" : "incoming"} ${type}`})));
  if (rows.length > EDGE_TYPES_MAX) list.push(make("p", {className: "soft"}, "and " + count(rows.length - EDGE_TYPES_MAX, "more type")));
  return list;
}

function ofEdge(edge) {
  shownFor = edge;
  const end = id => button(acts.caption(id), () => acts.choose([id]), {className: "plain link"});
  return [head([make("span", {className: "chip edge"}, edge.type)]), make("p", {}, end(edge.from), " → ", end(edge.to)),
    edge.synthetic ? make("p", {className: "soft"}, "Drawn by a quick query; it is not in the graph.") : null, make("h3", {}, "Properties"), properties(edge.properties || {})].filter(Boolean);
}

function ofMany(nodes) {
  shownFor = nodes;
  const byLabel = new Map();
  for (const node of nodes) {
    const name = kindOfNode(node);
    if (!byLabel.has(name)) byLabel.set(name, []);
    byLabel.get(name).push(node);
  }
  return [head([make("b", {}, count(nodes.length, "node"))]),
    make("div", {className: "buttons"}, button("Refresh", () => acts.refresh(nodes)), button("Unpin", () => acts.unpin(nodes)), button("Remove", acts.remove)),
    ...[...byLabel].slice(0, 30).map(([name, some]) => make("div", {className: "edge-row"}, chip(name, some[0].gone ? null : some[0].color), make("span", {className: "type"}),
      make("span", {className: "soft"}, some.length.toLocaleString("en")), button("Only these", () => acts.choose(some.map(node => node.id)), {ariaLabel: "Only these: " + name})))];
}
