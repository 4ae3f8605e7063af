// The canvas: shows the scene, lets the forces play, and turns gestures and keys into what is asked of `main`.

import {course, cut, draw, links, signOf, SvgPen} from "./draw.js";
import {at, make} from "./dom.js";
import {bounds, Forces, place, tree} from "./layout.js";
import {appearance, kindOfNode} from "./rules.js";
import {shown} from "./values.js";

const RADIUS = 17, SCALE_MIN = 0.01, SCALE_MAX = 4, HOLD_MILLIS = 600, HOVER_MILLIS = 350, TOOLS = 40, LEGEND = 50, GAP = 20, PNG_PIXELS_MAX = 6000;
const COLORS = ["#2a7fb8", "#2f8f4e", "#8a5fc0", "#c2543a", "#b8860b", "#3a8f96", "#b14a8a", "#6b7a2f", "#5f6f94", "#8c6239"];

export class Canvas {
  // `acts`: what happens on menu(x, y, node), open(node), choose(), remove(), undo(), redo().
  constructor(element, scene, acts) {
    Object.assign(this, {element, scene, acts, pen: element.getContext("2d")});
    this.view = {x: 0, y: 0, scale: 1};
    this.forces = new Forces();
    this.playing = false;
    this.layout = "graph";
    this.fits = true;
    this.rules = [];
    this.colors = new Map();
    // Marked for a moment, and marked as long as they are sought.
    this.marked = new Set();
    this.found = new Set();
    this.chosenEdge = null;
    this.fingers = new Map();
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.#readTheme();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.#readTheme(); this.redraw(); });
    new ResizeObserver(() => this.#resize()).observe(element);
    new ResizeObserver(() => this.#giveWay()).observe(at("panel"));
    this.#listen();
  }

  // ---- what is shown

  colorOf(label) {
    if (!this.colors.has(label)) this.colors.set(label, COLORS[this.colors.size % COLORS.length]);
    return this.colors.get(label);
  }

  dress(node) {
    const {size, color, icon, caption} = appearance(this.rules, node);
    Object.assign(node, {caption, sign: signOf(icon), radius: size ? size * 0.55 : RADIUS,
      color: color || (node.labels.length ? this.colorOf(node.labels.join(":")) : null)});
  }

  setRules(rules) {
    this.rules = rules;
    this.scene.nodes.forEach(node => this.dress(node));
    this.redraw();
  }

  // The scene has changed. `fresh`: nodes that have no place yet; `origin`: the one they came from.
  changed(fresh = [], origin = null) {
    this.nodes = [...this.scene.nodes.values()];
    this.links = links(this.scene);
    if (fresh.length === this.nodes.length) this.fits = true;
    if (fresh.length) place(fresh, this.links, origin);
    if (this.chosenEdge && !this.scene.edges.has(this.chosenEdge)) this.chosenEdge = null;
    this.arrange(fresh.length ? 1 : 0.3);
    this.acts.choose();
  }

  arrange(heat = 1) {
    if (this.layout === "tree") {
      tree(this.nodes || [], this.links || []);
      if (heat === 1) this.fit();
    } else {
      this.forces.warm(heat);
    }
    this.redraw();
  }

  setLayout(layout) {
    this.layout = layout;
    this.fits = true;
    this.arrange();
  }

  // ---- frames

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.#tick(); });
  }

  #tick() {
    if (this.layout === "graph") {
      if (this.playing) this.forces.warm(0.15);
      const until = performance.now() + (this.still.matches ? 250 : 9);
      let moved = false;
      for (let i = 0; (i < 4 || this.still.matches) && performance.now() < until; i++) {
        if (!this.forces.step(this.nodes || [], this.links || [])) break;
        moved = true;
      }
      if (moved) { if (this.fits) this.#center(); this.redraw(); }
    }
    this.#paint();
  }

  #paint() {
    const {pen, element, view} = this, dots = devicePixelRatio || 1;
    // On another screen the same size has other dots.
    if (dots !== this.dots) return this.#resize();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = this.theme.paper;
    pen.fillRect(0, 0, element.width, element.height);
    pen.setTransform(view.scale * dots, 0, 0, view.scale * dots, element.width / 2 - view.x * view.scale * dots, element.height / 2 - view.y * view.scale * dots);
    const halfX = element.clientWidth / 2 / view.scale, halfY = element.clientHeight / 2 / view.scale;
    const seen = {left: view.x - halfX, right: view.x + halfX, top: view.y - halfY, bottom: view.y + halfY};
    // Texts of thousands at once could not be read, and take long.
    const many = (this.links || []).length > 1500;
    const detail = view.scale < 0.32 ? 0 : view.scale < 0.62 || (many && view.scale < 1) ? 1 : 2;
    draw(pen, {nodes: this.nodes || [], edges: this.links || [], theme: this.theme, detail, scale: view.scale, chosen: this.scene.chosen, marked: new Set([...this.marked, ...this.found]), chosenEdge: this.chosenEdge, seen});
    if (this.band) {
      const {fromX, fromY, x, y} = this.band;
      pen.strokeStyle = this.theme.accent;
      pen.lineWidth = 1 / view.scale;
      pen.setLineDash([4 / view.scale, 3 / view.scale]);
      pen.strokeRect(Math.min(fromX, x), Math.min(fromY, y), Math.abs(x - fromX), Math.abs(y - fromY));
      pen.setLineDash([]);
    }
  }

  #readTheme() {
    const style = getComputedStyle(document.documentElement), theme = {};
    for (const name of ["paper", "ink", "soft", "edge", "accent", "halo", "marked", "node", "sign", "synthetic"]) theme[name] = style.getPropertyValue("--" + name).trim();
    this.theme = theme;
  }

  #resize() {
    const {element} = this, dots = this.dots = devicePixelRatio || 1;
    element.width = Math.max(1, Math.round(element.clientWidth * dots));
    element.height = Math.max(1, Math.round(element.clientHeight * dots));
    if (this.fits) this.#center();
    this.#paint();
  }

  // ---- the view

  // The part of the canvas that nothing lies over. The panel does, at its side or, where there is no room, at its bottom.
  #free() {
    const {clientWidth: width, clientHeight: height} = this.element, {offsetWidth, offsetHeight, hidden} = at("panel");
    const beside = !hidden && offsetWidth < width ? offsetWidth : 0, below = hidden || beside ? LEGEND : offsetHeight;
    return {left: TOOLS, top: 0, right: width - beside, bottom: height - below};
  }

  // Brings a place to the middle of what is free.
  #aim(x, y, scale) {
    const {left, top, right, bottom} = this.#free(), {clientWidth: width, clientHeight: height} = this.element;
    this.view = {x: x + (width - left - right) / 2 / scale, y: y + (height - top - bottom) / 2 / scale, scale};
  }

  #center() {
    const {left, top, right, bottom} = bounds(this.nodes || []), free = this.#free();
    const scale = Math.max(SCALE_MIN, Math.min(1.3, (free.right - free.left - GAP) / (right - left), (free.bottom - free.top - GAP) / (bottom - top)));
    this.#aim((left + right) / 2, (top + bottom) / 2, scale);
  }

  // How far a node with its caption stands outside of what is free, across and down.
  #outside(node) {
    const free = this.#free(), from = this.#inScene(free.left, free.top), to = this.#inScene(free.right, free.bottom), {left, top, right, bottom} = bounds([node]);
    return [Math.max(0, right - to.x) + Math.min(0, left - from.x), Math.max(0, bottom - to.y) + Math.min(0, top - from.y)];
  }

  // The panel has opened, or has another size: what is chosen is not under it.
  #giveWay() {
    const [node] = this.chosenNodes();
    if (at("panel").hidden) return;
    if (this.fits) {
      this.#center();
    } else if (node) {
      const [across, down] = this.#outside(node);
      this.view.x += across;
      this.view.y += down;
    }
    this.redraw();
  }

  fit() { this.fits = true; this.#center(); this.redraw(); }

  zoom(factor, x = this.element.clientWidth / 2, y = this.element.clientHeight / 2) {
    const {view} = this, scale = Math.min(SCALE_MAX, Math.max(SCALE_MIN, view.scale * factor));
    const before = this.#inScene(x, y);
    view.scale = scale;
    const after = this.#inScene(x, y);
    view.x += before.x - after.x;
    view.y += before.y - after.y;
    this.fits = false;
    this.redraw();
  }

  // Moves the view to a node, and chooses it.
  show(node) {
    this.#aim(node.x, node.y, Math.max(this.view.scale, 0.8));
    this.fits = false;
    this.choose([node.id]);
  }

  choose(ids) {
    this.scene.chosen = new Set(ids);
    this.chosenEdge = null;
    this.acts.choose();
    this.redraw();
  }

  chosenNodes() { return [...this.scene.chosen].map(id => this.scene.nodes.get(id)).filter(Boolean); }

  unpin(nodes) {
    nodes.forEach(node => { node.pinned = false; });
    this.marked = new Set(nodes.map(node => node.id));
    setTimeout(() => { this.marked = new Set(); this.redraw(); }, 400);
    this.arrange(0.5);
    this.acts.choose();
  }

  // Where a node stands in the window.
  placeOf(node) {
    const {left, top, width, height} = this.element.getBoundingClientRect();
    return {x: left + width / 2 + (node.x - this.view.x) * this.view.scale, y: top + height / 2 + (node.y - this.view.y) * this.view.scale};
  }

  #inScene(x, y) {
    const {element: {clientWidth, clientHeight}, view} = this;
    return {x: (x - clientWidth / 2) / view.scale + view.x, y: (y - clientHeight / 2) / view.scale + view.y};
  }

  #point(event) {
    const {left, top} = this.element.getBoundingClientRect();
    return this.#inScene(event.clientX - left, event.clientY - top);
  }

  #nodeAt({x, y}, gap = 3) {
    const nodes = this.nodes || [];
    for (let i = nodes.length - 1; i >= 0; i--)
      if (Math.hypot(nodes[i].x - x, nodes[i].y - y) <= Math.max(nodes[i].radius + gap, 8 / this.view.scale)) return nodes[i];
    return null;
  }

  #linkAt({x, y}) {
    const reach = Math.max(5, 5 / this.view.scale);
    return (this.links || []).find(link => {
      const way = course(link);
      if (way.loop) return Math.abs(Math.hypot(x - way.x, y - way.y) - way.size * 0.6) < reach;
      for (let t = 0.05; t < 1; t += Math.min(0.1, 8 / way.length)) {
        const s = 1 - t;
        const px = s * s * way.from.x + 2 * s * t * way.middleX + t * t * way.to.x, py = s * s * way.from.y + 2 * s * t * way.middleY + t * t * way.to.y;
        if (Math.hypot(px - x, py - y) < reach) return true;
      }
      return false;
    }) || null;
  }

  // ---- gestures

  #listen() {
    const on = (name, act, options) => this.element.addEventListener(name, act.bind(this), options);
    on("pointerdown", this.#down);
    on("pointermove", this.#move);
    on("pointerup", this.#up);
    on("pointercancel", this.#up);
    on("pointerleave", () => this.#hideTip());
    on("wheel", event => {
      event.preventDefault();
      const {left, top} = this.element.getBoundingClientRect();
      const lines = event.deltaMode === 1 ? 24 : 1;
      this.zoom(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines)) * 0.002), event.clientX - left, event.clientY - top);
    }, {passive: false});
    on("dblclick", event => { const node = this.#nodeAt(this.#point(event)); if (node && !event.shiftKey) this.acts.open(node); });
    on("contextmenu", event => {
      event.preventDefault();
      this.#hideTip();
      clearTimeout(this.holding);
      this.grip = null;
      const node = this.#nodeAt(this.#point(event));
      if (node && !this.scene.chosen.has(node.id)) this.choose([node.id]);
      this.acts.menu(event.clientX, event.clientY, node);
    });
    on("keydown", this.#key);
  }

  #down(event) {
    this.#hideTip();
    if (event.button !== 0) return;
    this.element.focus({preventScroll: true});
    this.element.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, {x: event.clientX, y: event.clientY});
    if (this.fingers.size === 2) { clearTimeout(this.holding); this.grip = {kind: "pinch"}; return; }
    const point = this.#point(event), node = this.#nodeAt(point);
    this.grip = {kind: node ? "node" : event.shiftKey ? "band" : "pan", node, shift: event.shiftKey, from: point, last: point, moved: false, startX: event.clientX, startY: event.clientY};
    if (!node) return;
    this.grip.was = this.scene.chosen.has(node.id);
    if (!this.grip.was && !event.shiftKey) this.choose([node.id]);
    this.holding = setTimeout(() => {
      const grip = this.grip;
      if (!grip || grip.moved) return;
      this.grip = null;
      if (grip.shift) this.unpin(grip.was ? this.chosenNodes() : [node]);
      else if (event.pointerType === "touch") this.acts.menu(event.clientX, event.clientY, node);
      else this.grip = grip;
    }, HOLD_MILLIS);
  }

  #move(event) {
    const {grip} = this, finger = this.fingers.get(event.pointerId);
    if (!grip) { if (!event.buttons) this.#hover(event); return; }
    if (grip.kind === "pinch") { if (finger) this.#pinch(event, finger); return; }
    if (!grip.moved && Math.hypot(event.clientX - grip.startX, event.clientY - grip.startY) < 4) return;
    grip.moved = true;
    clearTimeout(this.holding);
    const point = this.#point(event);
    if (grip.kind === "pan") {
      this.view.x -= point.x - grip.last.x;
      this.view.y -= point.y - grip.last.y;
      this.fits = false;
    } else if (grip.kind === "band") {
      this.band = {fromX: grip.from.x, fromY: grip.from.y, x: point.x, y: point.y};
    } else {
      if (!this.scene.chosen.has(grip.node.id)) this.choose([grip.node.id]);
      for (const node of this.chosenNodes()) {
        node.x += point.x - grip.last.x;
        node.y += point.y - grip.last.y;
        node.pinned = node.held = true;
      }
      grip.last = point;
      this.fits = false;
      if (this.layout === "graph") this.forces.warm(0.25);
    }
    if (grip.kind === "pan") grip.last = this.#point(event);
    this.redraw();
  }

  #pinch(event, finger) {
    const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (!other) return;
    const {left, top} = this.element.getBoundingClientRect();
    const before = Math.hypot(finger.x - other.x, finger.y - other.y), now = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    this.view.x -= (event.clientX - finger.x) / 2 / this.view.scale;
    this.view.y -= (event.clientY - finger.y) / 2 / this.view.scale;
    Object.assign(finger, {x: event.clientX, y: event.clientY});
    if (before > 5) this.zoom(now / before, (event.clientX + other.x) / 2 - left, (event.clientY + other.y) / 2 - top);
  }

  #up(event) {
    clearTimeout(this.holding);
    this.fingers.delete(event.pointerId);
    const {grip} = this;
    this.grip = null;
    this.scene.nodes.forEach(node => { node.held = false; });
    if (!grip || grip.kind === "pinch") return;
    if (grip.moved && grip.node) this.acts.choose();
    if (grip.kind === "band" && this.band) {
      const {fromX, fromY, x, y} = this.band;
      const inside = node => node.x > Math.min(fromX, x) && node.x < Math.max(fromX, x) && node.y > Math.min(fromY, y) && node.y < Math.max(fromY, y);
      this.band = null;
      this.choose([...this.scene.chosen, ...this.nodes.filter(inside).map(node => node.id)]);
    } else if (!grip.moved && grip.node) {
      if (grip.shift) this.choose(grip.was ? [...this.scene.chosen].filter(id => id !== grip.node.id) : [...this.scene.chosen, grip.node.id]);
      else this.choose([grip.node.id]);
    } else if (!grip.moved && !grip.shift) {
      const link = this.#linkAt(grip.from);
      this.choose([]);
      if (link) { this.chosenEdge = link.edge.key; this.acts.choose(); this.redraw(); }
    }
  }

  #hover(event) {
    clearTimeout(this.hovering);
    const point = this.#point(event), node = this.#nodeAt(point), link = node ? null : this.links?.length < 4000 ? this.#linkAt(point) : null;
    this.element.style.cursor = node || link ? "pointer" : "";
    const what = node || link?.edge || null;
    if (this.tipped !== what) this.#hideTip();
    this.tipped = what;
    if (what) this.hovering = setTimeout(() => this.#showTip(what, event.clientX, event.clientY), HOVER_MILLIS);
  }

  #showTip(what, x, y) {
    const entries = Object.entries(what.properties || {}).sort(([a], [b]) => a < b ? -1 : 1), tip = at("tip");
    tip.replaceChildren(make("b", {}, what.labels ? kindOfNode(what) : what.type), make("div", {className: "soft"}, what.id || (what.synthetic ? "drawn by a quick query, in no graph" : "")),
      ...entries.slice(0, 12).map(([key, value]) => make("div", {}, make("span", {className: "soft"}, key + " "), cut(shown(value), 120))),
      entries.length > 12 ? make("div", {className: "soft"}, "and " + (entries.length - 12) + " more") : "");
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - tip.offsetHeight - 8)) + "px";
  }

  #hideTip() { clearTimeout(this.hovering); this.tipped = null; at("tip").hidden = true; }

  #key(event) {
    const {key} = event, control = event.ctrlKey || event.metaKey, nodes = this.nodes || [];
    const handled = () => {
      if (control && key.toLowerCase() === "a") return this.choose(nodes.map(node => node.id)), true;
      if (control && key.toLowerCase() === "z") return event.shiftKey ? this.acts.redo() : this.acts.undo(), true;
      if (control && key.toLowerCase() === "y") return this.acts.redo(), true;
      if (control || event.altKey) return false;
      if (key === "Delete" || key === "Backspace") return this.acts.remove(), true;
      if (key === "Escape") return this.#hideTip(), this.choose([]), true;
      if (key === "+" || key === "=") return this.zoom(1.25), true;
      if (key === "-") return this.zoom(0.8), true;
      if (key === "0") return this.fit(), true;
      if (key === "Enter" && this.chosenNodes().length === 1) return this.acts.open(this.chosenNodes()[0]), true;
      if (key === "ContextMenu" || (key === "F10" && event.shiftKey)) {
        const node = this.chosenNodes()[0], {left, top} = this.element.getBoundingClientRect(), {x, y} = node ? this.placeOf(node) : {x: left + 40, y: top + 40};
        return this.acts.menu(x, y, node || null), true;
      }
      const way = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[key];
      if (way) return this.#walk(way, event.shiftKey), true;
      return false;
    };
    if (handled()) event.preventDefault();
  }

  // With arrows one goes from node to node; with Shift, or where nothing is chosen and nothing drawn, they move the view.
  #walk([dx, dy], pan) {
    const from = this.chosenNodes()[0];
    if (pan || !this.nodes?.length) {
      this.view.x += dx * 80 / this.view.scale;
      this.view.y += dy * 80 / this.view.scale;
      this.fits = false;
      return this.redraw();
    }
    let best = null, least = Infinity;
    const {x, y} = from || this.view;
    for (const node of this.nodes) {
      const along = (node.x - x) * dx + (node.y - y) * dy, across = Math.abs((node.x - x) * dy) + Math.abs((node.y - y) * dx);
      if (node === from || (from && along <= 0)) continue;
      const far = from ? along + across * 2 : Math.hypot(node.x - x, node.y - y);
      if (far < least) { least = far; best = node; }
    }
    if (!best) return;
    this.choose([best.id]);
    if (this.#outside(best).some(Boolean)) this.show(best);
    at("announce").textContent = best.caption + (best.labels.length ? ", " + best.labels.join(" ") : "");
  }

  // ---- pictures

  svg() {
    const pen = new SvgPen();
    draw(pen, {nodes: this.nodes || [], edges: this.links || [], theme: this.theme});
    return pen.document(bounds(this.nodes || []), this.theme.paper);
  }

  png() {
    const {left, top, right, bottom} = bounds(this.nodes || []), scale = Math.min(2, PNG_PIXELS_MAX / (right - left), PNG_PIXELS_MAX / (bottom - top));
    const canvas = make("canvas", {width: Math.round((right - left) * scale), height: Math.round((bottom - top) * scale)}), pen = canvas.getContext("2d");
    pen.fillStyle = this.theme.paper;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.setTransform(scale, 0, 0, scale, -left * scale, -top * scale);
    draw(pen, {nodes: this.nodes || [], edges: this.links || [], theme: this.theme});
    return new Promise(resolve => canvas.toBlob(resolve, "image/png"));
  }
}
