// Where boxes stand and how lines run: of what flows where, and of the plan of a query. Knows no page.

import {box, REST, STATES, worst} from "./flow.js";

// Of more of a kind the rest is one box.
export const SHOWN_MAX = 8;

// At most so many of a kind, the busiest and the worst of them, in their order; the rest as one.
export function summed(boxes, kind, most = SHOWN_MAX) {
  if (boxes.length <= most) return boxes;
  const weight = ({state, rate}) => (REST.has(state) ? 0 : 1 + STATES.indexOf(state)) * 1e9 + (rate || 0);
  const kept = new Set([...boxes].sort((a, b) => weight(b) - weight(a)).slice(0, most - 1));
  const rest = boxes.filter(one => !kept.has(one));
  const rate = rest.reduce((sum, one) => sum + (one.rate || 0), 0);
  return [...boxes.filter(one => kept.has(one)), {...box(kind + "…", `${rest.length} more`, "", worst(rest.map(({state}) => state)), "", rate), rest}];
}

const WIDTH = 1000, HIGH = 46, GAP = 12, EDGE = 8;
const COLUMNS = {streams: [0, 230], graph: [310, 110], queries: [500, 230], outputs: [790, 210]};

// Where boxes stand and how lines run, as wide as WIDTH.
export function drawing(flow) {
  const queries = summed(flow.queries, "query"), keys = new Set(queries.map(({key}) => key));
  // What a query that is summed up hands on is summed up, too.
  const outputs = summed(flow.outputs.filter(({from}) => keys.has(from)), "output"), streams = summed(flow.streams, "ingest");
  const most = Math.max(streams.length, queries.length, outputs.length, 1), height = most * (HIGH + GAP) - GAP + 2 * EDGE;
  const put = (boxes, [x, width]) => boxes.map((one, i) => ({...one, x, width, height: HIGH, y: (height - boxes.length * (HIGH + GAP) + GAP) / 2 + i * (HIGH + GAP), isBottleneck: flow.bottleneck?.key === one.key}));
  const placed = {streams: put(streams, COLUMNS.streams), graph: put([flow.graph], COLUMNS.graph), queries: put(queries, COLUMNS.queries), outputs: put(outputs, COLUMNS.outputs)};
  const [graph] = placed.graph, byKey = new Map(placed.queries.map(one => [one.key, one]));
  const lines = [...placed.streams.map(one => line(one, graph, one)), ...placed.queries.map(one => line(graph, one, one)),
    ...placed.outputs.flatMap(one => sources(one).filter(key => byKey.has(key)).map(key => line(byKey.get(key), one, one)))];
  return {width: WIDTH, height, boxes: Object.values(placed).flat(), lines};
}

const sources = one => [...new Set((one.rest || [one]).map(({from}) => from))];

function line(from, to, of) {
  const x = from.x + from.width, y = from.y + from.height / 2, end = to.y + to.height / 2, middle = (x + to.x) / 2;
  return {key: from.key + ">" + to.key, path: `M${x} ${y}C${middle} ${y} ${middle} ${end} ${to.x} ${end}`, state: of.state, width: thickness(of.rate), still: !of.rate};
}

// Ten times as much is a little wider.
export const thickness = rate => Number((1.5 + Math.min(9, 1.8 * Math.log10(1 + (rate || 0)))).toFixed(2));

const PLAN = {width: 270, pad: 9, line: 17, gapX: 18, gapY: 26, letters: 33};

// Where the parts of a plan stand: each below what is made of it, lines of text broken to the width of a box.
export function planDrawing(plan) {
  const boxes = [], lines = [];
  let height = 0;
  const lay = (part, left, top) => {
    const title = broken(part.title, PLAN.letters), details = part.details.flatMap(text => broken(text, PLAN.letters));
    const tall = 2 * PLAN.pad + PLAN.line * (title.length + details.length), below = top + tall + PLAN.gapY;
    let right = left;
    const inputs = part.inputs.map(input => { const one = lay(input, right, below); right = one.right + PLAN.gapX; return one; });
    right = Math.max(left + PLAN.width, right - PLAN.gapX);
    const x = inputs.length ? (inputs[0].x + inputs.at(-1).x) / 2 : left, middle = x + PLAN.width / 2;
    for (const one of inputs) {
      const to = one.x + PLAN.width / 2, half = below - PLAN.gapY / 2;
      lines.push(`M${to} ${below}V${half}H${middle}V${top + tall}`);
    }
    boxes.push({x, y: top, width: PLAN.width, height: tall, title, details, full: [part.title, ...part.details].join("\n")});
    height = Math.max(height, top + tall);
    return {x, right};
  };
  const {right} = lay(plan, 1, 1);
  return {width: right + 1, height: height + 1, boxes: boxes.reverse(), lines};
}

// A text in lines of so many letters, broken at spaces, or before an edge, where that goes.
export function broken(text, letters) {
  const lines = [];
  let rest = text.replace(/\s+/g, " ").trim();
  while (rest.length > letters) {
    const space = Math.max(rest.lastIndexOf(" ", letters), rest.lastIndexOf("-[", letters), rest.lastIndexOf("<-", letters)), end = space > letters / 3 ? space : letters;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return [...lines, rest];
}
