// The form that asks why there is no such result: of nodes that variables of the pattern are, and of values that columns have.

import {button, make} from "../explorer/dom.js";
import {parse} from "../explorer/values.js";
import {doing} from "./parts.js";
import {plan, why} from "./server.js";
import {answer} from "./why.js";

let lists = 0;

export function whyNotTab(name) {
  const columns = make("datalist", {id: "columns-" + ++lists}), variables = make("datalist", {id: "variables-" + lists});
  const items = make("div", {className: "items"}), said = make("div", {role: "status"}), rows = [];
  const add = (kind, focus) => {
    const type = make("select", {ariaLabel: "What is given"}, make("option", {value: "data"}, "column"), make("option", {value: "nodes"}, "node"));
    type.value = kind;
    const key = make("input", {ariaLabel: "Its name", placeholder: "name", autocomplete: "off", spellcheck: false}), value = make("input", {ariaLabel: "Its value", autocomplete: "off", spellcheck: false});
    const turn = () => { key.setAttribute("list", type.value === "data" ? columns.id : variables.id); value.placeholder = type.value === "data" ? "value, as JSON or text" : "id of the node"; };
    const one = {type, key, value}, row = make("div", {className: "item"}, type, key, make("span", {}, "="), value, button("×", () => { rows.splice(rows.indexOf(one), 1); row.remove(); more.focus(); }, {className: "plain", ariaLabel: "Remove this value"}));
    type.addEventListener("change", turn);
    turn();
    rows.push(one);
    items.append(row);
    if (focus) key.focus();
  };
  add("data");
  const more = button("Add a value", () => add("data", true));
  const ask = make("button", {type: "submit", className: "main"}, "Why not?");
  const form = make("form", {className: "whynot", on: {submit: event => {
    event.preventDefault();
    const question = {};
    for (const {type, key, value} of rows) {
      if (!key.value.trim()) continue;
      question[type.value] ??= {};
      question[type.value][key.value.trim()] = type.value === "nodes" ? value.value.trim() : valueOf(value.value);
    }
    doing(ask, async () => {
      said.replaceChildren(make("p", {className: "soft"}, "asking …"));
      try { said.replaceChildren(answer(await why(name, question))); } catch (error) { said.replaceChildren(make("p", {className: "problem"}, error.message)); }
    });
  }}}, make("p", {className: "soft"}, "Say which result you miss: values of its columns, or nodes that variables of the pattern would be."), items, columns, variables, make("div", {className: "buttons"}, more, button("Add a node", () => add("nodes", true)), ask));
  suggest(name, columns, variables);
  return {element: make("div", {}, form, said)};
}

// A value as it is typed: JSON where it is some, else the text.
export function valueOf(text) {
  try { return parse(text); } catch { return text; }
}

// The plan says which columns and variables there are.
async function suggest(name, columns, variables) {
  try {
    const whole = await plan(name), names = new Set();
    const look = part => { for (const [, of] of part.title.matchAll(/\(([A-Za-z_]\w*)[:)]/g)) names.add(of); part.inputs.forEach(look); };
    look(whole);
    columns.append(...whole.title.replace(/^Results\s*/, "").split(", ").map(value => make("option", {value: value.replace(/ = .*/, "")})));
    variables.append(...[...names].map(value => make("option", {value})));
  } catch { /* They can be typed all the same. */ }
}
