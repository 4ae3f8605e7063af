// Where nodes stand: a play of forces that cools down, and a tree in levels. Works on any objects with x and y.

const LENGTH = 125, REPULSION = 260, ROOM = 52, NEAR = 0.8, PULL = 0.045, DAMPING = 0.6, SPEED_MAX = 80, COOLING = 0.022, BLOCK_ABOVE = 12;
export const COLD = 0.004;

// The forces push nodes away from each other (far ones in groups, by Barnes and Hut) and pull those with an edge together.
export class Forces {
  constructor() { this.heat = 0; }

  warm(heat = 1) { this.heat = Math.max(this.heat, heat); }

  // One step. Answers whether there is still something to move.
  step(nodes, edges) {
    if (this.heat < COLD || !nodes.length) return false;
    for (const node of nodes) { node.fx = -node.x * PULL; node.fy = -node.y * PULL; node.degree = 0; }
    const tree = quadtree(nodes);
    for (const node of nodes) push(node, tree);
    for (const {a, b} of edges) { a.degree++; b.degree++; }
    for (const {a, b} of edges) {
      if (a === b) continue;
      const dx = b.x - a.x || 0.1, dy = b.y - a.y, distance = Math.hypot(dx, dy);
      // A node with many edges moves little for one of them.
      const force = (distance - LENGTH - a.radius - b.radius + 34) * 0.7 / distance, share = b.degree / (a.degree + b.degree);
      const weight = force / Math.sqrt(Math.min(a.degree, b.degree));
      a.fx += dx * weight * share; a.fy += dy * weight * share;
      b.fx -= dx * weight * (1 - share); b.fy -= dy * weight * (1 - share);
    }
    for (const node of nodes) {
      if (node.pinned || node.held) { node.vx = node.vy = 0; continue; }
      node.vx = ((node.vx || 0) + node.fx * this.heat) * DAMPING;
      node.vy = ((node.vy || 0) + node.fy * this.heat) * DAMPING;
      const speed = Math.hypot(node.vx, node.vy);
      if (speed > SPEED_MAX) { node.vx *= SPEED_MAX / speed; node.vy *= SPEED_MAX / speed; }
      node.x += node.vx;
      node.y += node.vy;
    }
    this.heat *= 1 - COOLING;
    return true;
  }
}

// Squares in squares: each knows how many nodes are in it and where their middle is.
function quadtree(nodes) {
  let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
  for (const {x, y} of nodes) { left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y); }
  const root = square(left, top, Math.max(right - left, bottom - top, 1));
  for (const node of nodes) insert(root, node, 0);
  return root;
}

const square = (x, y, size) => ({x, y, size, count: 0, sumX: 0, sumY: 0, node: null, parts: null});

function insert(into, node, depth) {
  into.count++;
  into.sumX += node.x;
  into.sumY += node.y;
  if (into.count === 1) { into.node = node; return; }
  // Nodes at one place stay together.
  if (depth > 24) return;
  if (into.node) { const other = into.node; into.node = null; insert(part(into, other), other, depth + 1); }
  insert(part(into, node), node, depth + 1);
}

function part(into, node) {
  const half = into.size / 2, column = node.x >= into.x + half ? 1 : 0, row = node.y >= into.y + half ? 1 : 0;
  if (!into.parts) into.parts = [null, null, null, null];
  return into.parts[row * 2 + column] ??= square(into.x + column * half, into.y + row * half, half);
}

function push(node, from) {
  if (from.node === node) return;
  let dx = node.x - from.sumX / from.count, dy = node.y - from.sumY / from.count, squared = dx * dx + dy * dy;
  if (!from.parts || from.size * from.size < NEAR * squared) {
    if (squared < 1) { dx = hash(node) - 0.5; dy = hash(node, 7) - 0.5; squared = 1; }
    const distance = Math.sqrt(squared);
    // Those that lie on each other leave each other room, whatever else pulls.
    const force = REPULSION * from.count / Math.max(distance, 12) + (from.node && distance < ROOM ? (ROOM - distance) * 0.8 : 0);
    node.fx += dx / distance * force;
    node.fy += dy / distance * force;
    return;
  }
  for (const inner of from.parts) if (inner) push(node, inner);
}

// A number between 0 and 1 that is the same whenever it is asked for, so that a drawing comes out the same.
function hash(node, salt = 1) {
  let all = salt;
  for (let i = 0; i < node.id.length; i++) all = Math.imul(all ^ node.id.charCodeAt(i), 0x01000193) >>> 0;
  return (all >>> 8) / 0xffffff;
}

// First places of new nodes: around a node they came from, around a neighbour that stands, or as a spiral beside what is there.
export function place(fresh, edges, origin) {
  const isFresh = new Set(fresh), beside = new Map();
  for (const {a, b} of edges) {
    if (isFresh.has(a) && !isFresh.has(b)) beside.set(a, b);
    if (isFresh.has(b) && !isFresh.has(a)) beside.set(b, a);
  }
  fresh.forEach((node, i) => {
    const from = origin && origin !== node ? origin : beside.get(node), angle = i * 2.39996 + hash(node) * 0.3;
    const radius = from ? LENGTH * 0.55 + 9 * Math.sqrt(i) : 34 * Math.sqrt(i + 0.5);
    node.x = (from ? from.x : 0) + radius * Math.cos(angle);
    node.y = (from ? from.y : 0) + radius * Math.sin(angle);
    node.vx = node.vy = 0;
  });
}

// Levels from top to bottom along the edges, or against them where more nodes have no edge that leads to them than none that
// leads on, as where children point to their parents. Roots are nodes that no edge enters in that direction, or where there is
// none, those with the most edges.
export function tree(nodes, edges, gapX = 105, gapY = 120) {
  const near = new Map(nodes.map(node => [node, []])), tails = new Map(nodes.map(node => [node, []])), heads = new Map(nodes.map(node => [node, []]));
  for (const {a, b} of edges) {
    if (a === b) continue;
    heads.get(a).push(b);
    tails.get(b).push(a);
    near.get(a).push(b);
    near.get(b).push(a);
  }
  const isEnd = of => node => near.get(node).length && !of.get(node).length, isUp = nodes.filter(isEnd(tails)).length > nodes.filter(isEnd(heads)).length;
  const out = isUp ? tails : heads, into = isUp ? heads : tails;
  const level = new Map(), below = new Map(nodes.map(node => [node, []])), roots = [];
  const grow = root => {
    if (level.has(root)) return;
    // All that it leads to has its place already: it stands there too, and not for itself.
    const [beside] = out.get(root);
    if (beside && out.get(root).every(next => level.has(next))) {
      below.get(beside).push(root);
      return level.set(root, level.get(beside) + 1);
    }
    roots.push(root);
    level.set(root, 0);
    const queue = [root];
    for (let at = 0; at < queue.length; at++) {
      for (const next of out.get(queue[at])) {
        if (level.has(next)) continue;
        level.set(next, level.get(queue[at]) + 1);
        below.get(queue[at]).push(next);
        queue.push(next);
      }
    }
  };
  const many = (a, b) => near.get(b).length - near.get(a).length;
  nodes.filter(isEnd(into)).sort(many).forEach(grow);
  nodes.filter(node => near.get(node).length).sort(many).forEach(grow);
  nodes.forEach(grow);
  // Leaves side by side, many as a block; a parent above the middle of its children. Chains may be long: no recursion.
  const wide = Math.max(14, Math.ceil(Math.sqrt(nodes.length) * 2.5)), isLeaf = node => !below.get(node).length;
  let column = 0, shelf = 0, bottom = 0;
  const put = (node, x, y) => { Object.assign(node, {x, y, vx: 0, vy: 0}); bottom = Math.max(bottom, y); };
  const block = (leaves, y) => {
    const across = leaves.length > BLOCK_ABOVE ? Math.ceil(Math.sqrt(leaves.length) * 1.4) : leaves.length;
    leaves.forEach((leaf, i) => put(leaf, (column + i % across) * gapX, y + Math.floor(i / across) * gapX * 0.75));
    column += across;
  };
  const single = roots.filter(isLeaf);
  for (const root of roots) {
    if (isLeaf(root)) continue;
    // Trees that would make the picture too wide begin a shelf below.
    if (column > wide) { column = 0; shelf = bottom + gapY * 1.3; }
    const stack = [{node: root, inner: below.get(root).filter(child => !isLeaf(child)), next: 0}];
    while (stack.length) {
      const top = stack[stack.length - 1];
      if (top.next < top.inner.length) {
        const child = top.inner[top.next++];
        stack.push({node: child, inner: below.get(child).filter(node => !isLeaf(node)), next: 0});
        continue;
      }
      stack.pop();
      const children = below.get(top.node), y = shelf + level.get(top.node) * gapY;
      block(children.filter(isLeaf), y + gapY);
      const places = children.map(child => child.x);
      put(top.node, (Math.min(...places) + Math.max(...places)) / 2, y);
    }
  }
  if (column > wide && single.length) { column = 0; shelf = bottom + gapY * 1.3; }
  block(single, shelf);
}

export function bounds(nodes) {
  let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
  for (const {x, y, radius = 16} of nodes) {
    left = Math.min(left, x - radius - 30); right = Math.max(right, x + radius + 30);
    top = Math.min(top, y - radius - 10); bottom = Math.max(bottom, y + radius + 26);
  }
  return nodes.length ? {left, top, right, bottom} : {left: -100, top: -100, right: 100, bottom: 100};
}
