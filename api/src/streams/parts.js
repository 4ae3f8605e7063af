// What several parts of the page are made of: chips, blocks of text, tabs, questions beside a button, drawings, rows that stay.

import {button, copy, COPY, icon, make, say} from "../explorer/dom.js";

// Nothing is touched that is as it should be: so nothing flickers, and what is chosen stays chosen.
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const STATES = {flowing: "running", constrained: "constrained", backpressured: "backpressured", failed: "failed", paused: "paused", stopped: "stopped"};

// A state with its word; `why` is what it shows when it is pointed at.
export function chip(element, state, word = STATES[state], why = "") {
  element.className = "state " + state;
  put(element, word);
  if (element.title !== why) element.title = why;
}

export const spot = (className = "") => make("span", {className});

// A text that is set out, with a button to copy it.
export function block(label, className = "") {
  const text = make("pre", {tabIndex: 0, role: "group", ariaLabel: label, className});
  const element = make("div", {className: "block"}, text, make("button", {type: "button", className: "icon plain", title: "Copy", ariaLabel: "Copy: " + label, on: {click: () => copy(text.textContent)}}, icon(COPY)));
  return {element, put: shown => put(text, shown)};
}

// Does what a button says, once at a time; what goes wrong is told.
export async function doing(control, act, done) {
  if (control.ariaDisabled === "true") return;
  control.ariaDisabled = "true";
  try {
    await act();
    if (done) say(done);
  } catch (error) {
    say(error.message, {wrong: true});
  } finally {
    control.ariaDisabled = "false";
  }
}

// The button that pauses something and has it go on; update() says which of them it is.
export function turning(name, pause, resume, look) {
  let isPaused = false;
  const element = button("Pause", () => doing(element, async () => { await (isPaused ? resume : pause)(name); await look(); }));
  return {element, update(paused, isThere) {
    isPaused = paused;
    const word = paused ? "Resume" : "Pause";
    element.hidden = !isThere;
    put(element, word);
    element.ariaLabel = word + " " + name;
  }};
}

// A button that asks in its own place before it acts.
export function asking(text, question, act, properties) {
  const place = make("span", {className: "asking"});
  const first = button(text, () => {
    const no = button("Keep", back), yes = button(text, () => doing(yes, act), {className: "danger"});
    place.replaceChildren(make("span", {className: "question"}, question), yes, no);
    Object.assign(place, {role: "group", ariaLabel: question});
    place.addEventListener("keydown", escape);
    no.focus();
  }, properties);
  const escape = event => { if (event.key === "Escape") { event.stopPropagation(); back(); } };
  const back = () => { place.removeEventListener("keydown", escape); Object.assign(place, {role: null, ariaLabel: null}); place.replaceChildren(first); first.focus(); };
  place.append(first);
  return place;
}

// Tabs, each made when it is first opened: [name, make()] where make gives {element, update?, opened?, closed?}.
export function tabs(label, all) {
  const made = new Map(), list = make("div", {className: "tablist", role: "tablist", ariaLabel: label}), panel = make("div", {role: "tabpanel", tabIndex: -1});
  let open = null, rests = false, seen;
  const heads = all.map(([name]) => make("button", {type: "button", role: "tab", on: {click: () => show(name)}}, name));
  function show(name, focus = false) {
    if (open !== name) made.get(open)?.closed?.();
    const isNew = !made.has(name);
    if (isNew) made.set(name, all.find(([of]) => of === name)[1]());
    const changed = open !== name, one = made.get(name);
    open = name;
    heads.forEach((head, i) => {
      head.ariaSelected = String(all[i][0] === name);
      head.tabIndex = all[i][0] === name ? 0 : -1;
      if (focus && all[i][0] === name) head.focus();
    });
    panel.ariaLabel = name;
    if (changed) { panel.replaceChildren(one.element); one.opened?.(); }
    if (seen !== undefined) one.update?.(seen);
  }
  list.addEventListener("keydown", event => {
    const at = all.findIndex(([name]) => name === open), to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(all.at(to % all.length)[0], true);
  });
  list.append(...heads);
  return {
    element: make("div", {className: "tabbed"}, list, panel),
    show,
    update(value) { seen = value; if (open === null) show(all[0][0]); else made.get(open).update?.(value); },
    closed() { rests = true; made.get(open)?.closed?.(); },
    opened() { if (rests) made.get(open)?.opened?.(); rests = false; },
  };
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  set(element, attributes);
  element.append(...children);
  return element;
}

export function set(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) if (element.getAttribute(key) !== String(value)) element.setAttribute(key, value);
}

// A small line of what came a second, as long as it is looked at.
export function sparkline() {
  const line = svg("polyline"), element = svg("svg", {class: "spark", viewBox: "0 0 60 16", preserveAspectRatio: "none", "aria-hidden": "true"}, line);
  return {element, update(rates) {
    const most = Math.max(...rates, 1e-9);
    set(line, {points: rates.length > 1 ? rates.map((rate, i) => `${(60 - rates.length + i + 1).toFixed(1)},${(15 - 13 * rate / most).toFixed(1)}`).join(" ") : ""});
  }};
}

// A field that leaves of many things those whose text has some words in it. It is there when there are many. `changed()` is called
// when others are to be left; all() leaves all of them.
const MANY = 8;
export function finding(input, text, changed) {
  input.addEventListener("input", changed);
  return {
    of(items) {
      input.hidden = items.length <= MANY && !input.value;
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      return items.filter(item => { const all = text(item).toLowerCase(); return words.every(word => all.includes(word)); });
    },
    all() { input.value = ""; changed(); },
  };
}

// Rows of a table by name, which stay as long as what they show is there. `create(item)` gives {elements, update(item), gone?()}.
export class Rows {
  #rows = new Map();

  // `home` is what has the focus when the row goes that had it, and there is no other.
  constructor(body, create, home = null) {
    this.body = body;
    this.create = create;
    this.home = home;
  }

  get(name) { return this.#rows.get(name); }

  update(items) {
    const names = new Set(items.map(({name}) => name));
    let near = null;
    for (const [name, row] of this.#rows) {
      if (names.has(name)) continue;
      row.gone?.();
      // Who is in a row that goes, as by its own button, goes on at the next one.
      if (row.elements.some(element => element.contains(document.activeElement))) near = row.elements.at(-1).nextElementSibling || this.body;
      row.elements.forEach(element => element.remove());
      this.#rows.delete(name);
    }
    if (near) ((near.isConnected ? near : this.body).querySelector("button") || this.home)?.focus();
    let before = null;
    for (const item of items.toReversed()) {
      if (!this.#rows.has(item.name)) {
        const row = this.create(item);
        this.#rows.set(item.name, row);
        row.elements.forEach(element => this.body.insertBefore(element, before));
      }
      const row = this.#rows.get(item.name);
      row.update(item);
      [before] = row.elements;
    }
  }
}

// A row with what is told below it when its name is pressed. `details()` is asked for once: {element, update?, opened?, closed?}.
export function unfolding({name, cells, details}) {
  let opened = null, last;
  const head = make("button", {type: "button", className: "name", ariaExpanded: "false", on: {click: () => toggle()}}, name);
  const row = make("tr", {}, make("th", {scope: "row"}, head), ...cells), place = make("td", {colSpan: cells.length + 1}), below = make("tr", {className: "details", hidden: true}, place);
  function toggle(wanted = below.hidden) {
    if (wanted !== below.hidden) return;
    if (!opened) { opened = details(); place.append(opened.element); }
    below.hidden = !wanted;
    head.ariaExpanded = String(wanted);
    row.classList.toggle("open", wanted);
    if (wanted) { if (last !== undefined) opened.update?.(last); opened.opened?.(); } else opened.closed?.();
  }
  return {
    elements: [row, below],
    update(item) { last = item; if (!below.hidden) opened.update?.(item); },
    gone() { if (!below.hidden) opened.closed?.(); },
    open() { toggle(true); row.scrollIntoView({block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"}); head.focus({preventScroll: true}); },
    details: () => opened,
  };
}

// A list of what is named and what it is.
export function facts(pairs) {
  const values = new Map();
  const element = make("dl", {className: "facts"}, ...pairs.map(([key, label]) => {
    const value = make("dd");
    values.set(key, value);
    return make("div", {}, make("dt", {}, label), value);
  }));
  return {element, update(told) {
    for (const [key, value] of values) {
      const text = told[key];
      value.parentElement.hidden = text === undefined || text === null || text === "";
      if (!value.parentElement.hidden) put(value, String(text));
    }
  }};
}
