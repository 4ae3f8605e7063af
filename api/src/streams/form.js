// Forms made of the shapes of schema.js. A part of a form is {element, read()}; read gives nothing where nothing is given, so
// that the server's own defaults hold. A form begins with a value: what was written as JSON before, or another definition.

import {button, count, make} from "../explorer/dom.js";
import {Numeral, parse, write} from "../explorer/values.js";
import {MASK} from "./definitions.js";
import {kindsOf, optionOf, ordered, plain, words} from "./schema.js";

const LONG = /(^|\.)(query|function|certificateAuthorities|clientCertificate)$/;
let ids = 0;

// `hints` by path: {first, hidden, label, unset}. What they do not name is shown all the same.
export function formOf(shape, initial, hints = {}) {
  const whole = control(shape, {path: "", required: true, initial, hints, example: shape.example});
  return {
    element: whole.element,
    read: whole.read,
    // The field that a path of the server's speaks of, or the nearest one around it.
    find(path) {
      for (let parts = path.split("."); parts.length; parts.pop()) {
        const found = whole.element.querySelector(`[data-path="${CSS.escape(parts.join("."))}"]`);
        if (found) return found;
      }
      return null;
    },
  };
}

const CONTROLS = {text, secret: text, number, boolean, choice, const: fixed, object, map, list, union, any};
const control = (shape, place) => CONTROLS[shape.kind](shape, place);
const inner = (place, name) => place.path ? place.path + "." + name : name;
const hint = ({hints, path}) => hints[path.replace(/\.\d+/g, "")] || {};

function fixed({value}) {
  return {element: null, read: () => value};
}

const placeholder = (shape, place) => shape.default !== undefined && typeof shape.default !== "object" ? String(shape.default) : typeof place.example === "string" || typeof place.example === "number" ? "e.g. " + place.example : "";

function text(shape, place) {
  const long = LONG.test(place.path);
  const properties = {value: place.initial ?? "", required: place.required, placeholder: long ? "" : placeholder(shape, place), spellcheck: false, autocomplete: "off"};
  // The mask of a secret is seen to be one until it is replaced.
  const isSecret = shape.kind === "secret", isMask = isSecret && place.initial === MASK;
  const input = long ? make("textarea", {...properties, rows: /query$/.test(place.path) ? 4 : 3}) : make("input", {...properties, type: isSecret && !isMask ? "password" : "text", ...(isSecret ? {autocomplete: "new-password"} : {})});
  if (isMask) {
    input.addEventListener("focus", () => { if (input.value === MASK) input.select(); });
    input.addEventListener("input", () => { const end = input.selectionEnd; input.type = "password"; input.setSelectionRange(end, end); }, {once: true});
  }
  return field(input, place, () => input.value === "" ? undefined : input.value);
}

function number(shape, place) {
  const input = make("input", {value: place.initial ?? "", inputMode: shape.integer ? "numeric" : "decimal", required: place.required, placeholder: placeholder(shape, place), autocomplete: "off"});
  input.addEventListener("input", () => input.setCustomValidity(/^(-?(0|[1-9]\d*)(\.\d+)?)?$/.test(input.value.trim()) ? "" : "This is no number."));
  return field(input, place, () => {
    const given = input.value.trim();
    return given === "" ? undefined : String(Number(given)) === given ? Number(given) : new Numeral(given);
  });
}

function boolean(shape, place) {
  const usual = shape.default === true, input = make("input", {type: "checkbox", checked: place.initial ?? usual});
  return {...field(input, place, () => input.checked === usual && !place.required ? undefined : input.checked), inline: true};
}

function choice(shape, place) {
  // Where there is one word to choose, there is nothing to choose.
  if (place.required && shape.values.length === 1) return fixed({value: shape.values[0]});
  const unset = hint(place).unset || (shape.default === undefined ? "–" : `${shape.default} (when nothing is chosen)`);
  const select = make("select", {required: place.required}, ...(place.required ? [] : [make("option", {value: ""}, unset)]), ...shape.values.map(value => make("option", {value}, value)));
  select.value = place.initial ?? (place.required ? shape.values[0] : "");
  return field(select, place, () => select.value || undefined);
}

// Anything, as JSON.
function any(shape, place) {
  const input = make("textarea", {rows: 2, spellcheck: false, required: place.required, value: place.initial === undefined ? "" : write(place.initial, "  "), placeholder: "JSON"});
  const given = () => { try { return parse(input.value); } catch { return undefined; } };
  input.addEventListener("input", () => input.setCustomValidity(input.value.trim() === "" || given() !== undefined ? "" : "This is no JSON."));
  return field(input, place, () => input.value.trim() === "" ? undefined : given());
}

function field(input, place, read) {
  input.dataset.path = place.path;
  return {element: input, input, read};
}

function object(shape, place) {
  const {visible, more} = ordered(shape.fields, hint(place)), parts = [];
  const row = ({name, required, shape}) => {
    const path = inner(place, name), initial = place.initial?.[name];
    const part = entry(shape(), {path, required, initial, hints: place.hints, example: place.example?.[name]}, name);
    parts.push([name, part]);
    return part.element;
  };
  const rows = visible.map(row).filter(Boolean), others = more.map(row).filter(Boolean);
  // Where nothing is required and there is little to say, it is not put away.
  const given = more.some(({name}) => place.initial?.[name] !== undefined) || !rows.length && others.length < 4;
  const element = make("div", {className: "fields"}, ...rows, others.length ? make("details", {className: "more-fields", open: given}, make("summary", {}, rows.length ? `More (${others.length})` : count(others.length, "option")), ...others) : null);
  element.dataset.path = place.path;
  return {element, wide: true, read() {
    const all = {};
    for (const [name, part] of parts) { const value = part.read(); if (value !== undefined) all[name] = value; }
    return Object.keys(all).length || place.required ? all : undefined;
  }};
}

// A part with its name and what it says of itself. One that may be left out and has parts of its own is switched on first.
function entry(shape, place, name) {
  const label = hint(place).label || words(name), optional = !place.required && (shape.kind === "object" || shape.kind === "union" && !shape.tag && shape.options.some(({shape}) => shape().kind === "object"));
  if (shape.kind === "object" && optional) return switched(shape, place, label);
  const part = control(shape, place);
  if (!part.element || hint(place).bare) return part;
  const id = "field-" + ++ids, about = shape.description ? make("small", {id: id + "-about"}, plain(shape.description)) : null;
  const star = place.required && !part.wide ? make("span", {className: "star", title: "required", ariaHidden: "true"}, "*") : null;
  if (part.input) { part.input.id = id; if (about) part.input.setAttribute("aria-describedby", about.id); }
  const head = part.input ? make("label", {htmlFor: id}, label, star) : make("span", {className: "label", id}, label, star);
  if (!part.input) { part.element.setAttribute("role", "group"); part.element.setAttribute("aria-labelledby", id); }
  return {read: part.read, element: make("div", {className: "field" + (part.inline ? " inline" : "")}, ...(part.inline ? [part.element, head, about] : [head, about, part.element]))};
}

function switched(shape, place, label) {
  const id = "field-" + ++ids, body = make("div", {className: "nested"});
  const box = make("input", {type: "checkbox", id, checked: place.initial !== undefined && place.initial !== null});
  let part = null;
  const turn = () => {
    if (box.checked && !part) { part = control(shape, {...place, required: true}); body.append(part.element); }
    body.hidden = !box.checked;
    // What is hidden asks for nothing.
    for (const input of body.querySelectorAll("input, select, textarea")) input.disabled = !box.checked;
  };
  box.addEventListener("change", turn);
  turn();
  box.dataset.path = place.path;
  return {element: make("div", {className: "field inline"}, box, make("label", {htmlFor: id}, label), shape.description ? make("small", {}, plain(shape.description)) : null, body), read: () => box.checked ? part.read() : undefined};
}

function union(shape, place) {
  const known = optionOf(shape, place.initial), first = place.required ? known || shape.options[0] : known;
  const about = shape.tag ? new Map(kindsOf(shape).map(({name, description}) => [name, description])) : new Map();
  const unset = shape.default === undefined ? "–" : `${shape.default} (when nothing is chosen)`;
  const select = make("select", {}, ...(place.required ? [] : [make("option", {value: ""}, unset)]), ...shape.options.map(({name}) => make("option", {value: name}, name)));
  const body = make("div", {className: "nested"});
  let part = null;
  const turn = initial => {
    const option = shape.options.find(({name}) => name === select.value), made = option?.shape();
    part = option ? control(made, {...place, required: true, initial, example: made.example ?? place.example}) : null;
    select.title = about.get(select.value) || "";
    body.replaceChildren(...(part?.element ? [part.element] : []));
    body.hidden = !part?.element || made.kind === "object" && !part.element.childElementCount;
    if (part?.input) part.input.setAttribute("aria-label", words(place.path.split(".").at(-1)));
  };
  select.value = first?.name ?? "";
  select.dataset.path = place.path + (shape.tag ? "." + shape.tag : "");
  select.addEventListener("change", () => turn(undefined));
  turn(place.initial);
  const element = make("div", {className: "union"}, select, body);
  element.dataset.path = place.path;
  select.ariaLabel = words(place.path.split(".").at(-1));
  return {element, read: () => part?.read()};
}

// Several of a kind, each with a button that takes it away.
function list(shape, place) {
  const parts = [], items = make("div", {className: "items"}), name = words(place.path.split(".").at(-1));
  let next = 0;
  const add = initial => {
    const item = shape.item(), part = control(item, {...place, path: inner(place, String(next++)), required: true, initial, example: item.example ?? place.example?.[0]});
    const row = make("div", {className: "item"}, part.element, button("×", () => { parts.splice(parts.indexOf(part), 1); row.remove(); more.focus(); }, {ariaLabel: "Remove from " + name, title: "Remove", className: "plain"}));
    if (part.input) part.input.ariaLabel = name;
    parts.push(part);
    items.append(row);
    return part;
  };
  const more = button("Add", () => { const part = add(undefined); (part.input || part.element.querySelector("input, select, textarea"))?.focus(); }, {ariaLabel: "Add to " + name});
  for (const one of Array.isArray(place.initial) ? place.initial : place.required ? [undefined] : []) add(one);
  const element = make("div", {className: "list"}, items, more);
  element.dataset.path = place.path;
  return {element, read: () => parts.length || place.required ? parts.map(part => part.read()).filter(value => value !== undefined) : undefined};
}

// Names and what belongs to them.
function map(shape, place) {
  const parts = [], items = make("div", {className: "items"}), of = words(place.path.split(".").at(-1));
  const add = (name, initial) => {
    const key = make("input", {value: name, placeholder: "name", ariaLabel: "Name", autocomplete: "off", spellcheck: false}), item = shape.item();
    const part = control(item, {...place, path: inner(place, name || "value"), required: true, initial, example: undefined}), one = {key, part};
    const row = make("div", {className: "item"}, key, part.element, button("×", () => { parts.splice(parts.indexOf(one), 1); row.remove(); more.focus(); }, {ariaLabel: "Remove from " + of, title: "Remove", className: "plain"}));
    if (part.input) part.input.ariaLabel = "Value";
    parts.push(one);
    items.append(row);
    return key;
  };
  const more = button("Add", () => add("", undefined).focus(), {ariaLabel: "Add to " + of});
  for (const [name, value] of Object.entries(place.initial || {})) add(name, value);
  const element = make("div", {className: "list"}, items, more);
  element.dataset.path = place.path;
  return {element, read: () => parts.length ? Object.fromEntries(parts.filter(({key}) => key.value !== "").map(({key, part}) => [key.value, part.read() ?? null])) : undefined};
}
