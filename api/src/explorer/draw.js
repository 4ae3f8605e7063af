// Draws nodes and edges with a pen: the context of a <canvas>, or the one that writes SVG. What is seen is what is exported.

// Signs for glyphs of Ionicons, whose font is not part of weir: circles [x, y, radius] and polygons [[x, y], …] in a square from -1 to 1.
const SIGNS = {
  person: [[0, -0.42, 0.4], [[-0.7, 0.8], [-0.6, 0.3], [-0.25, 0.08], [0.25, 0.08], [0.6, 0.3], [0.7, 0.8]]],
  people: [[-0.35, -0.35, 0.32], [0.42, -0.2, 0.27], [[-0.9, 0.65], [-0.75, 0.2], [-0.35, 0.05], [0.05, 0.2], [0.2, 0.65]], [[0.3, 0.65], [0.22, 0.2], [0.45, 0.13], [0.8, 0.3], [0.9, 0.65]]],
  file: [[[-0.55, -0.85], [0.2, -0.85], [0.2, -0.4], [0.6, -0.4], [0.6, 0.85], [-0.55, 0.85]], [[0.3, -0.85], [0.6, -0.52], [0.3, -0.52]]],
  home: [[[0, -0.85], [0.9, 0], [0.62, 0], [0.62, 0.75], [0.18, 0.75], [0.18, 0.25], [-0.18, 0.25], [-0.18, 0.75], [-0.62, 0.75], [-0.62, 0], [-0.9, 0]]],
  card: [[[-0.9, -0.6], [0.9, -0.6], [0.9, -0.3], [-0.9, -0.3]], [[-0.9, -0.1], [0.9, -0.1], [0.9, 0.6], [-0.9, 0.6]]],
  place: [[0, -0.3, 0.5], [[-0.48, -0.1], [0.48, -0.1], [0, 0.9]]],
  mail: [[[-0.9, -0.6], [0.9, -0.6], [0, 0.12]], [[-0.9, -0.35], [0, 0.4], [0.9, -0.35], [0.9, 0.65], [-0.9, 0.65]]],
  lock: [[[-0.62, -0.1], [0.62, -0.1], [0.62, 0.8], [-0.62, 0.8]], [[-0.45, 0], [-0.45, -0.5], [-0.2, -0.85], [0.2, -0.85], [0.45, -0.5], [0.45, 0], [0.2, 0], [0.2, -0.42], [0.08, -0.6], [-0.08, -0.6], [-0.2, -0.42], [-0.2, 0]]],
  device: [[[-0.9, -0.7], [0.9, -0.7], [0.9, 0.35], [-0.9, 0.35]], [[-0.3, 0.45], [0.3, 0.45], [0.5, 0.75], [-0.5, 0.75]]],
  alert: [[[-0.2, -0.85], [0.2, -0.85], [0.12, 0.3], [-0.12, 0.3]], [0, 0.65, 0.2]],
  star: [[[0, -0.9], [0.24, -0.3], [0.88, -0.28], [0.38, 0.12], [0.55, 0.75], [0, 0.4], [-0.55, 0.75], [-0.38, 0.12], [-0.88, -0.28], [-0.24, -0.3]]],
  square: [[[-0.6, -0.6], [0.6, -0.6], [0.6, 0.6], [-0.6, 0.6]]],
  diamond: [[[0, -0.85], [0.75, 0], [0, 0.85], [-0.75, 0]]],
  triangle: [[[0, -0.75], [0.8, 0.6], [-0.8, 0.6]]],
  hexagon: [[[-0.4, -0.7], [0.4, -0.7], [0.8, 0], [0.4, 0.7], [-0.4, 0.7], [-0.8, 0]]],
};
// Eight teeth.
SIGNS.gear = [Array.from({length: 32}, (_, i) => { const far = i % 4 < 2 ? 0.92 : 0.66, angle = (i + 0.5) * Math.PI / 16; return [far * Math.cos(angle), far * Math.sin(angle)]; })];
const GLYPHS = {
  gear: "f13d f13e f2ad f2f7 f411 f412 f43c f43d f4a6 f4a7",
  person: "f202 f213 f25d f2d8 f3a0 f3e3 f3e4 f419 f41a f47d f47e", people: "f212 f2d9 f39e f47b f47c",
  file: "f127 f12e f12f f139 f2e0 f376 f381 f38a f391 f434 f435 f453 f454 f471 f472", home: "f144 f38f f447 f448",
  card: "f119 f26c f2aa f2ab f316 f370 f3ed f3ee f3f7 f3f8 f48c f48d f48e f48f", place: "f1ff f203 f2a3 f393 f3a3 f455 f456 f46d f46e",
  mail: "f10f f11b f11f f132 f2d4 f2eb f3c3 f3da f3f9 f3fa f422 f423", lock: "f200 f254 f296 f392 f3b5 f457 f458 f4c8 f4c9",
  device: "f1f9 f1fa f1fc f20a f380 f390 f3a1 f3a2 f465 f466", alert: "f100 f101 f142 f149 f27c f2a4 f2be f31a f35b f3bc f444 f445",
  star: "f24e f279 f2fc f348 f356 f3ad f3ae f442 f443 f4b2 f4b3",
};
const SIGN_OF = new Map(Object.entries(GLYPHS).flatMap(([sign, codes]) => codes.split(" ").map(code => [parseInt(code, 16), sign])));
const SHAPES = ["square", "diamond", "triangle", "hexagon"];

// What a rule's icon is drawn as: a sign, or a text, such as an emoji. Of glyphs that no sign is like each has its shape.
export function signOf(icon) {
  if (!icon) return null;
  const code = icon.codePointAt(0);
  if (code < 0xe000 || code > 0xf8ff) return {text: [...icon].slice(0, 3).join("")};
  return {sign: SIGN_OF.get(code) || SHAPES[code % SHAPES.length]};
}

export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const CAPTION_MAX = 24, DOT_MIN = 2.8, LINE_MIN = 0.6;

// How bright a colour is, and which ink can be read on it: that of the two is 4.5 : 1 and more on any.
const bright = rgb => rgb.map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4).reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
export const contrast = (a, b) => { const [low, high] = [bright(a), bright(b)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05); };
export const inkOn = rgb => contrast(rgb, [255, 255, 255]) >= 4.5 ? [255, 255, 255] : [0, 0, 0];

export const cut = (text, most) => text.length > most ? text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "") + "…" : text;

// Edges with the nodes at their ends. Those between the same two are bent, each another way.
export function links(scene) {
  const between = new Map(), all = [];
  for (const edge of scene.edges.values()) {
    const a = scene.nodes.get(edge.from), b = scene.nodes.get(edge.to);
    const pair = edge.from < edge.to ? edge.from + "\n" + edge.to : edge.to + "\n" + edge.from;
    const link = {edge, a, b, bend: 0};
    if (!between.has(pair)) between.set(pair, []);
    between.get(pair).push(link);
    all.push(link);
  }
  for (const group of between.values())
    group.forEach((link, i) => {
      const bend = group[0].a === group[0].b ? i + 1 : (i - (group.length - 1) / 2) * 44;
      link.bend = link.edge.from < link.edge.to || link.a === link.b ? bend : -bend;
    });
  return all;
}

// Where an edge runs: from rim to rim over the point its curve leans to, and where its text stands.
export function course({a, b, bend}) {
  if (a === b) {
    const size = a.radius + 14 + bend * 9;
    return {loop: true, x: a.x + size * 0.62, y: a.y - size * 0.62, size, textX: a.x + size * 1.35, textY: a.y - size * 1.35};
  }
  const dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy) || 1;
  const middleX = (a.x + b.x) / 2 - dy / length * bend, middleY = (a.y + b.y) / 2 + dx / length * bend;
  const rim = (node, gap) => {
    const x = middleX - node.x, y = middleY - node.y, distance = Math.hypot(x, y) || 1, reach = Math.min(node.radius + gap, distance);
    return {x: node.x + x / distance * reach, y: node.y + y / distance * reach};
  };
  const from = rim(a, 1), to = rim(b, 3);
  return {from, to, middleX, middleY, textX: (from.x + to.x) / 4 + middleX / 2, textY: (from.y + to.y) / 4 + middleY / 2, length};
}

// The whole drawing. `detail` says whether texts can be read at this scale; what lies outside `seen` is left out.
export function draw(pen, {nodes, edges, theme, detail = 2, scale = 1, chosen = new Set(), marked = new Set(), chosenEdge = null, seen = null}) {
  const outside = ({x, y}, gap) => seen && (x < seen.left - gap || x > seen.right + gap || y < seen.top - gap || y > seen.bottom + gap);
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.font = FONT;
  for (const link of edges) {
    if (outside(link.a, 300) && outside(link.b, 300)) continue;
    drawEdge(pen, link, theme, detail, scale, chosenEdge === link.edge.key, chosen.has(link.a.id) || chosen.has(link.b.id));
  }
  const inside = nodes.filter(node => !outside(node, 80));
  for (const node of inside) drawNode(pen, node, theme, scale, chosen.has(node.id), marked.has(node.id));
  // Above all nodes, so that none hides the name of another.
  if (detail > 0) for (const node of inside) if (node.caption) text(pen, cut(node.caption, CAPTION_MAX), node.x, node.y + node.radius + 12, theme.ink, theme, "12px");
}

function drawEdge(pen, link, theme, detail, scale, isChosen, isNear) {
  const way = course(link), {edge} = link;
  pen.strokeStyle = isChosen || isNear ? theme.accent : edge.synthetic ? theme.synthetic : theme.edge;
  pen.lineWidth = Math.max(isChosen ? 2.5 : 1.3, LINE_MIN / scale);
  if (edge.synthetic) pen.setLineDash([6, 5]);
  pen.beginPath();
  if (way.loop) {
    pen.arc(way.x, way.y, way.size * 0.6, 0, Math.PI * 2);
  } else {
    pen.moveTo(way.from.x, way.from.y);
    if (link.bend) pen.quadraticCurveTo(way.middleX, way.middleY, way.to.x, way.to.y);
    else pen.lineTo(way.to.x, way.to.y);
  }
  pen.stroke();
  if (edge.synthetic) pen.setLineDash([]);
  if (!way.loop && detail > 0) {
    const angle = Math.atan2(way.to.y - way.middleY, way.to.x - way.middleX);
    pen.fillStyle = pen.strokeStyle;
    pen.beginPath();
    pen.moveTo(way.to.x, way.to.y);
    pen.lineTo(way.to.x - 9 * Math.cos(angle - 0.4), way.to.y - 9 * Math.sin(angle - 0.4));
    pen.lineTo(way.to.x - 9 * Math.cos(angle + 0.4), way.to.y - 9 * Math.sin(angle + 0.4));
    pen.closePath();
    pen.fill();
  }
  if (detail > 1 && (way.loop || way.length > 60)) text(pen, cut(edge.type, CAPTION_MAX), way.textX, way.textY, theme.soft, theme, "10.5px");
}

function drawNode(pen, node, theme, scale, isChosen, isMarked) {
  // From far away a node is still a dot that can be seen.
  const {x, y} = node, radius = Math.max(node.radius, DOT_MIN / scale);
  if (isChosen || isMarked) {
    pen.fillStyle = isMarked ? theme.marked : theme.halo;
    circle(pen, x, y, radius + 7);
    pen.fill();
  }
  // What is not there is hollow.
  pen.fillStyle = node.gone ? theme.paper : node.color || theme.node;
  circle(pen, x, y, radius);
  pen.fill();
  pen.strokeStyle = isChosen ? theme.accent : node.gone ? theme.node : theme.paper;
  pen.lineWidth = isChosen ? 2.5 : 1.5;
  if (node.gone) pen.setLineDash([4, 3]);
  pen.stroke();
  if (node.gone) pen.setLineDash([]);
  if (node.sign && radius * scale > 5) {
    if (node.sign.text) {
      pen.font = FONT.replace("12px", Math.round(radius * 1.1) + "px");
      pen.fillStyle = theme.sign;
      pen.fillText(node.sign.text, x, y + radius * 0.08);
      pen.font = FONT;
    } else {
      sign(pen, node.sign.sign, x, y, radius * 0.58, theme.sign);
    }
  }
  if (node.pinned) {
    pen.fillStyle = theme.ink;
    circle(pen, x + radius * 0.72, y - radius * 0.72, 2.6);
    pen.fill();
  }
}

function circle(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, Math.PI * 2);
  pen.closePath();
}

function sign(pen, name, x, y, size, color) {
  pen.fillStyle = color;
  for (const part of SIGNS[name]) {
    if (typeof part[0] === "number") { circle(pen, x + part[0] * size, y + part[1] * size, part[2] * size); pen.fill(); continue; }
    pen.beginPath();
    part.forEach(([px, py], i) => i ? pen.lineTo(x + px * size, y + py * size) : pen.moveTo(x + px * size, y + py * size));
    pen.closePath();
    pen.fill();
  }
}

// With a rim of the colour of the paper, so that it can be read over lines.
function text(pen, words, x, y, color, theme, size) {
  pen.font = FONT.replace("12px", size);
  pen.lineJoin = "round";
  pen.lineWidth = 3.5;
  pen.strokeStyle = theme.paper;
  pen.strokeText(words, x, y);
  pen.fillStyle = color;
  pen.fillText(words, x, y);
}

const ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"};
// Characters that XML does not know are left out.
const escaped = words => words.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "").replace(/[&<>"]/g, sign => ESCAPED[sign]);
const number = value => String(Math.round(value * 10) / 10);

// A pen that writes SVG.
export class SvgPen {
  constructor() { this.parts = []; this.path = ""; this.dash = []; }

  beginPath() { this.path = ""; }
  closePath() { this.path += "Z"; }
  moveTo(x, y) { this.path += `M${number(x)} ${number(y)}`; }
  lineTo(x, y) { this.path += `L${number(x)} ${number(y)}`; }
  quadraticCurveTo(cx, cy, x, y) { this.path += `Q${number(cx)} ${number(cy)} ${number(x)} ${number(y)}`; }
  // Whole circles are all that is asked for.
  arc(x, y, r) { this.path += `M${number(x - r)} ${number(y)}a${number(r)} ${number(r)} 0 1 0 ${number(2 * r)} 0a${number(r)} ${number(r)} 0 1 0 ${number(-2 * r)} 0`; }
  setLineDash(dash) { this.dash = dash; }
  fill() { this.parts.push(`<path d="${this.path}" fill="${escaped(this.fillStyle)}"/>`); }
  stroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    this.parts.push(`<path d="${this.path}" fill="none" stroke="${escaped(this.strokeStyle)}" stroke-width="${this.lineWidth}"${dash}/>`);
  }
  strokeText(words, x, y) { this.rim = this.strokeStyle; }
  fillText(words, x, y) {
    const rim = this.rim ? ` stroke="${escaped(this.rim)}" stroke-width="3.5" paint-order="stroke" stroke-linejoin="round"` : "";
    this.rim = null;
    const size = parseFloat(this.font);
    this.parts.push(`<text x="${number(x)}" y="${number(y + size * 0.35)}" font-size="${size}" fill="${escaped(this.fillStyle)}"${rim}>${escaped(words)}</text>`);
  }

  document({left, top, right, bottom}, paper) {
    const width = number(right - left), height = number(bottom - top), place = `${number(left)} ${number(top)} ${width} ${height}`;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${place}" width="${width}" height="${height}" font-family="system-ui, sans-serif" text-anchor="middle">\n`
      + `<rect x="${number(left)}" y="${number(top)}" width="${width}" height="${height}" fill="${escaped(paper)}"/>\n${this.parts.join("\n")}\n</svg>\n`;
  }
}
