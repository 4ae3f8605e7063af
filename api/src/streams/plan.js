// The plan of a standing query as a drawing.

import {planDrawing} from "./layout.js";
import {svg} from "./parts.js";

export function planPicture(plan) {
  const {width, height, boxes, lines} = planDrawing(plan);
  return svg("svg", {class: "plan-picture", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "The dataflow, drawn"},
    ...lines.map(d => svg("path", {d})),
    ...boxes.map(({x, y, width, height, title, details, full}) => svg("g", {transform: `translate(${x} ${y})`}, svg("title", {}, full), svg("rect", {width, height, rx: 6}),
      ...[...title, ...details].map((text, i) => svg("text", {x: 10, y: 22 + 17 * i, class: i < title.length ? "head" : "detail"}, text)))));
}
