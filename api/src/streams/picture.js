// The picture of what flows where. Boxes and lines stay as long as what they show is there.

import {at} from "../explorer/dom.js";
import {perSecond} from "./figures.js";
import {broken, drawing} from "./layout.js";
import {put, set, svg} from "./parts.js";

const kept = new Map();

function keep(key, make) {
  if (!kept.has(key)) kept.set(key, make());
  return kept.get(key);
}

const fitted = (text, letters) => text.length > letters ? broken(text, letters - 1)[0].slice(0, letters - 1) + "…" : text;

// `open(box)` is what happens when a box is pressed.
export function show(flow, open) {
  const {width, height, boxes, lines} = drawing(flow), picture = at("picture");
  set(picture, {viewBox: `0 0 ${width} ${height}`, width, height});
  const there = new Set();
  for (const line of lines) {
    const element = keep("line " + line.key, () => { const made = svg("path"); at("lines").append(made); return made; });
    there.add("line " + line.key);
    set(element, {d: line.path, class: `flow ${line.state}${line.still ? " still" : ""}`, "stroke-width": line.width});
  }
  for (const one of boxes) {
    const group = keep("box " + one.key, () => made(one, open));
    there.add("box " + one.key);
    place(group, one);
  }
  for (const [key, element] of kept) if (!there.has(key)) { element.remove(); kept.delete(key); }
  // Its line is always there: what stands below does not move with it.
  at("bottleneck").classList.toggle("soft", !flow.bottleneck);
  put(at("bottleneck-text"), flow.bottleneck?.text || "none");
}

function made(one, open) {
  const leads = one.key !== "graph" && !one.rest;
  const group = svg("g", leads ? {tabindex: 0, role: "button"} : {}, svg("title"), svg("rect", {rx: 7}), svg("rect", {rx: 2, class: "side"}),
    svg("text", {class: "name"}), svg("text", {class: "rate", "text-anchor": "end"}), svg("text", {class: "kind"}));
  if (leads) {
    group.addEventListener("click", () => open(one));
    group.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(one); } });
  }
  at("boxes").append(group);
  return group;
}

function place(group, {x, y, width, height, name, kind, state, why, rate, isBottleneck, key}) {
  const [title, back, side, head, figure, below] = group.children, isGraph = key === "graph";
  set(group, {class: `box ${state}${isBottleneck ? " bottleneck" : ""}`, transform: `translate(${x} ${y})`, "aria-label": `${name}: ${state}${why ? ", " + why : ""}, ${perSecond(rate)}${isBottleneck ? ", the bottleneck" : ""}`});
  set(back, {width, height});
  set(side, {width: 4, height: height - 12, x: 5, y: 6});
  set(head, {x: 16, y: 19});
  set(below, {x: 16, y: 36});
  set(figure, {x: width - 10, y: isGraph ? 36 : 19});
  put(title, `${name}\n${state}${why ? ": " + why : ""}`);
  put(head, fitted(name, isGraph ? 12 : Math.floor((width - 90) / 8)));
  put(figure, perSecond(rate));
  put(below, isGraph ? "" : fitted([kind, state === "flowing" ? "" : state].filter(Boolean).join(" · "), Math.floor((width - 24) / 6.2)));
}
