// Small helpers of the page: elements, menus, dialogs, words that pass, files and the clipboard. Texts are put in as texts.

import {cut} from "./draw.js";

export const at = id => document.getElementById(id);

export function make(name, properties, ...children) {
  const {className, on, ...rest} = properties || {};
  const element = Object.assign(document.createElement(name), rest);
  if (className) element.className = className;
  for (const [event, handler] of Object.entries(on || {})) element.addEventListener(event, handler);
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

export const button = (text, act, properties) => make("button", {type: "button", on: {click: act}, ...properties}, text);

// Puts a text in, cut where it is long, with a button that shows all of it. Who presses that goes on from the text.
export function putLong(element, text, most, properties) {
  element.append(cut(text, most));
  if (text.length > most) element.append(" ", button("all", () => { element.replaceChildren(text); element.tabIndex = -1; element.focus({preventScroll: true}); }, {className: "plain link", ...properties}));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
// A drawing of lines in a square of 16.
export function icon(path) {
  const svg = document.createElementNS(SVG, "svg"), line = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}
export const COPY = "M6 6h7v7H6zM3.5 10H3V3h7v.5";

// A word at the corner, for a while; one about an error stays longer. What is said again takes the place of what was said before.
export function say(text, {wrong = false, action = null} = {}) {
  const close = () => toast.remove();
  const toast = make("div", {className: wrong ? "toast wrong" : "toast"}, make("span", {}, text),
    action && button(action[0], () => { close(); action[1](); }), button("×", close, {ariaLabel: "Close", className: "plain"}));
  const before = [...at("toasts").children].find(one => one.firstChild.textContent === text);
  const isIn = before?.contains(document.activeElement);
  if (before) before.replaceWith(toast); else at("toasts").append(toast);
  if (isIn) toast.lastChild.focus();
  setTimeout(close, wrong ? 30000 : action ? 10000 : 4000);
}

let openMenu = null;
export function closeMenu() {
  if (!openMenu) return;
  const {element, before} = openMenu;
  openMenu = null;
  element.remove();
  if (before && before.isConnected) before.focus();
}

// A menu at a place of the window. An item is [text, act, hint?], a text alone is a heading, and null a line.
export function menu(x, y, items, label) {
  closeMenu();
  const element = make("div", {className: "menu", role: "menu", ariaLabel: label}, ...items.map(item => {
    if (item === null) return make("hr");
    if (typeof item === "string") return make("div", {className: "heading"}, item);
    const [text, act, hint] = item;
    return button(text, () => { closeMenu(); act(); }, {role: "menuitem", title: hint || ""});
  }));
  openMenu = {element, before: document.activeElement};
  document.body.append(element);
  const {width, height} = element.getBoundingClientRect();
  element.style.left = Math.max(4, Math.min(x, innerWidth - width - 4)) + "px";
  element.style.top = Math.max(4, Math.min(y, innerHeight - height - 4)) + "px";
  const all = [...element.querySelectorAll("button")];
  element.addEventListener("keydown", event => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step) { event.preventDefault(); all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus(); }
    if (event.key === "Escape" || event.key === "Tab") { event.preventDefault(); event.stopPropagation(); closeMenu(); }
  });
  if (all.length) all[0].focus();
}
addEventListener("pointerdown", event => { if (openMenu && !openMenu.element.contains(event.target)) closeMenu(); }, true);

export function menuBelow(element, items, label) {
  const {left, bottom} = element.getBoundingClientRect();
  menu(left, bottom + 4, items, label);
}

// Asks for a value, or for a yes; null when it is closed. `input`: properties of a field, none asks for a yes alone; `all`: a
// value that has a button of its own.
export function ask({title, text, input, label, ok = "OK", check, all}) {
  return new Promise(resolve => {
    const field = input && make("input", {autocomplete: "off", spellcheck: false, ...input}), wrong = make("p", {className: "wrong", role: "alert"});
    const dialog = make("dialog", {ariaLabel: title}, make("form", {method: "dialog", on: {submit: event => {
      const problem = check && check(field.value);
      if (problem) { event.preventDefault(); wrong.textContent = problem; field.focus(); }
    }}}, make("h2", {}, title), ...(text ? text.split("\n") : []).map(line => make("p", {}, line)),
    field && make("label", {}, label || "", field), wrong,
    make("div", {className: "buttons"}, button("Cancel", () => dialog.close()),
    all === undefined ? null : button("All", () => { field.value = all; dialog.close("ok"); }), make("button", {value: "ok", className: "main"}, ok))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "ok" ? (field ? field.value : true) : null);
    });
    document.body.append(dialog);
    dialog.showModal();
    if (field) field.select();
  });
}

export async function copy(text, what = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Only pages that came encrypted, or from this machine, have a clipboard.
    const field = make("textarea", {value: text, className: "aside"});
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) { say("The browser does not let this page copy.", {wrong: true}); return; }
  }
  say(what);
}

export function save(name, content, type) {
  const place = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
  make("a", {href: place, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(place), 10000);
}

export const fileName = ending => "weir-" + new Date().toISOString().slice(0, 19).replaceAll(":", "-") + ending;

export const count = (number, one, many = one + "s") => number.toLocaleString("en") + " " + (number === 1 ? one : many);
