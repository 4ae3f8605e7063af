// What is drawn: nodes, edges, which are chosen, and the steps that lead back and forth; what waits to be drawn. Knows neither page
// nor server.

const STEPS_MAX = 200;

export class Scene {
  constructor() {
    this.nodes = new Map();
    this.edges = new Map();
    this.chosen = new Set();
    this.back = [];
    this.forth = [];
    // Counts changes of what there is, for those who keep something about it.
    this.version = 0;
  }

  // Puts nodes and edges in, those that are there already as they are now. Answers with what is new.
  add({nodes = [], edges = []}, {remember = true} = {}) {
    const step = {added: true, nodes: [], edges: []};
    for (const node of nodes) {
      const there = this.nodes.get(node.id);
      if (there) Object.assign(there, {labels: node.labels, properties: node.properties, gone: false});
      else { this.nodes.set(node.id, node); step.nodes.push(node); }
    }
    for (const edge of edges) {
      if (!this.nodes.has(edge.from) || !this.nodes.has(edge.to)) continue;
      const there = this.edges.get(edge.key);
      if (there) there.properties = edge.properties;
      else { this.edges.set(edge.key, edge); step.edges.push(edge); }
    }
    if (remember) this.#remember(step);
    this.version++;
    return step;
  }

  // What was found for an earlier step belongs to it: one click takes both back.
  extend(step, more) {
    // Whoever took the step back gets these with it when it is done again.
    if (this.forth.includes(step)) { step.edges.push(...(more.edges || []).filter(edge => !this.edges.has(edge.key))); return; }
    const {nodes, edges} = this.add(more, {remember: false});
    step.nodes.push(...nodes);
    step.edges.push(...edges);
    if (!this.back.includes(step)) this.#remember(step);
  }

  remove(ids, keys = [], {remember = true} = {}) {
    const gone = new Set(ids), keysGone = new Set(keys);
    const step = {added: false, nodes: [...gone].map(id => this.nodes.get(id)).filter(Boolean),
      edges: [...this.edges.values()].filter(edge => keysGone.has(edge.key) || gone.has(edge.from) || gone.has(edge.to))};
    this.#take(step);
    if (remember) this.#remember(step);
    return step;
  }

  clear() { return this.remove(this.nodes.keys()); }

  // Of the nodes that came by themselves (`live`) the oldest go where there are more than so many; not what somebody has pinned or
  // chosen. That is no step to be taken back.
  trim(most) {
    const live = [...this.nodes.values()].filter(node => node.live), nodes = live.filter(({id, pinned, held}) => !pinned && !held && !this.chosen.has(id)).slice(0, Math.max(0, live.length - most));
    if (nodes.length) this.#take({nodes, edges: []});
  }

  undo() { return this.#move(this.back, this.forth, step => step.added); }
  redo() { return this.#move(this.forth, this.back, step => !step.added); }

  // What is there stays, and there is no way back: what the steps held was so at another moment.
  forget() {
    this.back = [];
    this.forth = [];
  }

  // Everything goes, and there is no way back.
  reset() {
    this.nodes.clear();
    this.edges.clear();
    this.chosen.clear();
    this.forget();
    this.version++;
  }

  #move(from, to, takes) {
    const step = from.pop();
    if (!step) return false;
    if (takes(step)) this.#take(step); else this.#put(step);
    to.push(step);
    return true;
  }

  #remember(step) {
    if (!step.nodes.length && !step.edges.length) return;
    this.back.push(step);
    if (this.back.length > STEPS_MAX) this.back.shift();
    this.forth = [];
  }

  #put(step) {
    step.nodes.forEach(node => this.nodes.set(node.id, node));
    step.edges.forEach(edge => { if (this.nodes.has(edge.from) && this.nodes.has(edge.to)) this.edges.set(edge.key, edge); });
    this.version++;
  }

  #take(step) {
    for (const {key} of step.edges) this.edges.delete(key);
    for (const {id} of step.nodes) { this.nodes.delete(id); this.chosen.delete(id); }
    // Edges that came later than the step hang on its nodes, too: they come back with it.
    const taken = new Set(step.nodes.map(node => node.id));
    for (const edge of [...this.edges.values()]) {
      if (!taken.has(edge.from) && !taken.has(edge.to)) continue;
      this.edges.delete(edge.key);
      step.edges.push(edge);
    }
    this.version++;
  }
}

// What is to be drawn when there is time, the first that came first. Where there is more than so much the oldest goes: it would make
// room for the rest anyway.
export class Waiting {
  #ids = new Set();

  constructor(most) { this.most = most; }

  get size() { return this.#ids.size; }

  clear() { this.#ids.clear(); }

  // Answers how many have gone.
  put(ids) {
    for (const id of ids) this.#ids.add(id);
    let gone = 0;
    for (const id of this.#ids) {
      if (this.size <= this.most) break;
      this.#ids.delete(id);
      gone++;
    }
    return gone;
  }

  // At most so many, without those that nobody wants any more.
  take(count, isWanted) {
    const taken = [];
    for (const id of this.#ids) {
      if (taken.length === count) break;
      this.#ids.delete(id);
      if (isWanted(id)) taken.push(id);
    }
    return taken;
  }
}

// Texts that were run, the last first; what is being written stands before them all.
export class Past {
  constructor(texts = [], most = 100) {
    this.most = most;
    this.put(texts);
    this.at = -1;
    this.draft = "";
  }

  put(texts) { this.texts = texts.filter(text => typeof text === "string").slice(0, this.most); }

  add(text) {
    this.at = -1;
    if (!text.trim()) return;
    this.texts = [text, ...this.texts.filter(other => other !== text)].slice(0, this.most);
  }

  // What is written in the place of one of them is what stands before them all.
  leave() { this.at = -1; }

  older(now) {
    if (this.at === -1) this.draft = now;
    if (this.at + 1 >= this.texts.length) return null;
    return this.texts[++this.at];
  }

  newer() {
    if (this.at === -1) return null;
    return --this.at === -1 ? this.draft : this.texts[this.at];
  }
}
