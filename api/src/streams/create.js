// The dialogs in which streams, standing queries and outputs are made: by a form from the server's own document, or as JSON.

import {button, make, say} from "../explorer/dom.js";
import {placeIn} from "../explorer/rules.js";
import {parse, write} from "../explorer/values.js";
import {leftOut, masksIn} from "./definitions.js";
import {full} from "./flow.js";
import {formOf} from "./form.js";
import {fieldIn} from "./mistakes.js";
import {doing} from "./parts.js";
import {planPicture} from "./plan.js";
import {kindsOf, shapeOf} from "./schema.js";
import {bodyOf, explain, openApi} from "./server.js";

const GRAPH = "/api/v2/graph/{graphName}/";
const INGESTS = GRAPH + "ingests", QUERIES = GRAPH + "standingQueries", OUTPUTS = QUERIES + "/{standingQueryName}/outputs";

// What is asked for first, and how some of it is called.
const HINTS_OF_INGEST = {"": {first: ["name", "source", "query"]}, query: {label: "query for each record"}, maxPerSecond: {label: "at most so many records a second"}};
const HINTS_OF_WORKFLOW = {first: ["name", "destinations"]};
const HINTS_OF_QUERY = {
  "": {first: ["name", "pattern", "includeCancellations", "outputs", "startFrom"], hidden: ["inputBufferSize"]}, pattern: {first: ["query", "mode"], bare: true},
  "pattern.mode": {unset: "as the query allows"}, includeCancellations: {label: "tell cancellations, too"}, outputs: HINTS_OF_WORKFLOW, startFrom: {label: "start from"},
};

export async function newIngest(submit, initial) {
  const shape = await shapeFor(INGESTS);
  if (!shape) return;
  const dialog = frame("New ingest stream"), source = shape.fields.find(({name}) => name === "source").shape();
  const ask = given => fill(dialog, {shape, initial: given, hints: HINTS_OF_INGEST, queryPath: "query", command: "EXPLAIN", ok: "Create", submit, back: initial ? null : cards});
  const cards = () => {
    const all = kindsOf(source).map(({name, description}) =>
      make("button", {type: "button", className: "card", on: {click: () => ask({source: {type: name}})}}, make("b", {}, name), make("span", {}, description)));
    dialog.body.replaceChildren(make("p", {className: "soft"}, "Where do records come from?"), make("div", {className: "cards"}, ...all));
    dialog.foot.replaceChildren(button("Cancel", dialog.close));
    all[0].focus();
  };
  if (initial) ask(initial); else cards();
}

export async function newStanding(submit, initial) {
  const shape = await shapeFor(QUERIES);
  if (shape) fill(frame("New standing query"), {shape, initial, hints: HINTS_OF_QUERY, queryPath: "pattern.query", command: "EXPLAIN STANDING", ok: "Create", submit});
}

export async function newOutput(query, submit) {
  const shape = await shapeFor(OUTPUTS);
  if (shape) fill(frame(`New output of “${query}”`), {shape, hints: {"": HINTS_OF_WORKFLOW}, ok: "Add", submit});
}

// The name stays: it says which output is changed.
export async function changedOutput(query, {name, ...given}, submit) {
  const shape = await shapeFor(OUTPUTS);
  if (shape) fill(frame(`Change the ${full("output", name, query)}`), {shape, initial: given, hints: {"": {...HINTS_OF_WORKFLOW, hidden: ["name"]}}, ok: "Change", submit});
}

async function shapeFor(path) {
  try {
    const document = await openApi();
    return shapeOf(document, bodyOf(document, path));
  } catch (error) {
    say(error.message, {wrong: true});
    return null;
  }
}

function frame(title) {
  const before = document.activeElement, body = make("div", {className: "dialog-body"}), foot = make("div", {className: "buttons"});
  const wrong = make("pre", {className: "problem", role: "alert", hidden: true});
  const dialog = make("dialog", {className: "wide create", ariaLabel: title}, make("h2", {}, title), make("form", {}, body, wrong, foot));
  dialog.addEventListener("close", () => { dialog.remove(); if (before?.isConnected) before.focus(); });
  const problem = text => { wrong.hidden = !text; wrong.textContent = text || ""; };
  // What was written is not gone by one key.
  let written = false, warned = false;
  dialog.addEventListener("input", () => { written = true; warned = false; });
  dialog.addEventListener("cancel", event => {
    if (!written || warned) return;
    event.preventDefault();
    warned = true;
    problem("Escape once more throws away what was written.");
  });
  // A field that is put away cannot be told of, and the form would be held back without a word.
  dialog.addEventListener("invalid", ({target}) => reveal(target), true);
  document.body.append(dialog);
  dialog.showModal();
  return {body, foot, problem, close: () => dialog.close(), form: dialog.querySelector("form")};
}

// Puts form and buttons into a dialog; `submit(body)` is thrown out of when the server refuses.
function fill(dialog, {shape, initial, hints, queryPath, command, ok, submit, back}) {
  let form = null, json = null;
  const said = make("div", {className: "said", role: "status"});
  const read = () => json ? parse(json.value) : form.read();
  const query = () => form && queryPath ? form.find(queryPath) : null;
  // What a form has no field for would be gone without a word.
  const lostOf = value => { const lost = leftOut(value, formOf(shape, value, hints).read()); return lost.length ? `A form has no place for ${lost.join(", ")}. Take it out, or go on with the JSON.` : ""; };
  const masked = masksIn(initial), note = masked.length ? make("p", {className: "problem mild"}, `weir shows no secrets, so there are masks at ${masked.join(", ")}. Give each anew, or take it out.`) : "";

  const show = (asJson, value) => {
    form = asJson ? null : formOf(shape, value, hints);
    json = asJson ? make("textarea", {className: "json", rows: 22, spellcheck: false, ariaLabel: "As JSON", value: write(value, "  ")}) : null;
    dialog.body.replaceChildren(note, asJson ? json : form.element, said);
    toggle.textContent = asJson ? "As a form" : "As JSON";
    check.hidden = asJson || !queryPath;
    (json || form.element.querySelector("input, select, textarea"))?.focus();
  };
  const toggle = button("As JSON", () => {
    let value;
    try { value = read(); } catch (error) { return dialog.problem("This is no JSON: " + error.message); }
    const lost = json && lostOf(value);
    if (lost) return dialog.problem(lost);
    dialog.problem(null);
    show(!json, value);
  });
  const check = button("Check the query", () => doing(check, async () => {
    const field = query(), text = field.value;
    dialog.problem(null);
    said.replaceChildren();
    if (!text.trim()) return field.focus();
    try {
      const plan = await explain(command, text);
      said.replaceChildren(make("p", {className: "good"}, command === "EXPLAIN" ? "The query can run." : "The query can be maintained, by this dataflow:"), ...(command === "EXPLAIN" ? [] : [make("div", {className: "plan scroll", tabIndex: 0, role: "region", ariaLabel: "The dataflow of the query"}, planPicture(plan))]));
      said.scrollIntoView({block: "nearest"});
    } catch (error) {
      const message = error.message.replace(/\bat (\d+)\.(?=\d)/g, (all, line) => `at ${line - 1}.`);
      tell(message);
    }
  }), {hidden: !queryPath});
  const tell = message => {
    dialog.problem(message);
    const field = query(), place = field && placeIn(field.value, message), named = fieldIn(message);
    if (place !== undefined && field) mark(field, place); else if (named) markAt(named);
  };
  const markAt = path => { const field = form?.find(path); if (field) mark(field); };
  const create = make("button", {type: "submit", className: "main"}, ok);
  dialog.form.onsubmit = event => {
    event.preventDefault();
    if (create.ariaDisabled === "true") return;
    let body;
    try { body = read(); } catch (error) { return dialog.problem("This is no JSON: " + error.message); }
    dialog.problem(null);
    const [mask] = masksIn(body);
    if (mask !== undefined) { dialog.problem(`At ${mask} there is the mask of a secret, and not the secret.`); return markAt(mask); }
    create.classList.add("waits");
    doing(create, async () => {
      try {
        const answer = await submit(body);
        dialog.close();
        for (const warning of answer?.warnings || []) say(warning, {wrong: true});
      } catch (error) { tell(error.message); }
    }).finally(() => create.classList.remove("waits"));
  };
  dialog.foot.replaceChildren(...[back && button("← Other source", () => { dialog.problem(null); back(); }), toggle, check, make("span", {className: "gap"}), button("Cancel", dialog.close), create].filter(Boolean));
  const lost = lostOf(initial);
  show(Boolean(lost), initial);
  if (lost) dialog.problem(lost);
}

function reveal(field) {
  for (let around = field.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
}

// Shows where something is wrong, until it is changed.
function mark(element, place) {
  const field = element.matches("input, select, textarea") ? element : element.querySelector("input, select, textarea") || element;
  reveal(field);
  field.setAttribute("aria-invalid", "true");
  field.addEventListener("input", () => field.removeAttribute("aria-invalid"), {once: true});
  field.focus();
  if (place !== undefined && field.setSelectionRange) field.setSelectionRange(place, Math.max(place, Math.min(place + 1, field.value.length)));
  field.scrollIntoView({block: "nearest"});
}
