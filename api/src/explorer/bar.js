// The bar that queries are written in: grows with its text, remembers what was run, offers the sample queries.

import {ask, at, button, menuBelow, say} from "./dom.js";
import {list, replaceList} from "./query.js";
import {placeIn} from "./rules.js";
import {Past} from "./scene.js";

const KEPT = "weir.explorer.history";
const past = new Past();
let samples = [];
// What happens on run(text, asTable), offer(text) and cancel().
let acts = null;

export function prepare(given) {
  acts = given;
  past.put(kept());
  const field = at("text");
  const run = table => { if (field.value.trim()) acts.run(field.value.trim(), table); else field.focus(); };
  field.addEventListener("input", () => { past.leave(); grow(); });
  addEventListener("resize", grow);
  field.addEventListener("keydown", event => {
    if (event.isComposing) return;
    if (event.key === "Enter" && (!event.shiftKey || event.ctrlKey || event.metaKey)) { event.preventDefault(); run(event.shiftKey); }
    if (event.key === "Escape" && at("run").dataset.running) acts.cancel();
    if (event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
    // In several lines they go from line to line, and on from the first and the last one.
    const up = event.key === "ArrowUp" && !field.value.slice(0, field.selectionStart).includes("\n"), down = event.key === "ArrowDown" && !field.value.slice(field.selectionEnd).includes("\n");
    const text = up ? past.older(field.value) : down ? past.newer() : null;
    if (text !== null) { event.preventDefault(); put(text, up ? (text + "\n").indexOf("\n") : text.length); }
  });
  at("query").addEventListener("submit", event => event.preventDefault());
  at("run").addEventListener("click", event => at("run").dataset.running ? acts.cancel() : run(event.shiftKey));
  at("as-table").addEventListener("click", () => run(true));
  at("samples").addEventListener("click", () => menuBelow(at("samples"), menuOfSamples(), "Sample queries"));
  grow();
}

export function write(text) {
  past.leave();
  put(text, text.length);
}

function put(text, place) {
  const field = at("text");
  field.value = text;
  grow();
  field.focus();
  field.setSelectionRange(place, place);
}

function grow() {
  const field = at("text");
  field.style.height = "auto";
  field.style.height = field.scrollHeight + 2 + "px";
}

// What the browser keeps, which other pages write to as well. One that keeps nothing remembers as long as the page is open.
function kept() {
  try {
    const texts = JSON.parse(localStorage.getItem(KEPT));
    return Array.isArray(texts) ? texts : past.texts;
  } catch { return past.texts; }
}

export function remember(text) {
  past.put(kept());
  past.add(text);
  try { localStorage.setItem(KEPT, JSON.stringify(past.texts)); } catch { /* It is remembered as long as the page is open. */ }
}

// Shows what a query came to: its kind colours the bar for a moment.
export function tell(kind, text) {
  at("said").textContent = text;
  at("said").className = kind;
  const form = at("query");
  form.classList.remove("good", "empty", "wrong");
  if (kind === "running") return;
  form.classList.add(kind);
  setTimeout(() => form.classList.remove(kind), 900);
}

// What went wrong with a query. Where that says at which place, the cursor goes there, if the query still stands in the bar.
export function problem(text, query = "") {
  at("problem").hidden = !text;
  at("problem-text").textContent = text || "";
  const field = at("text"), place = text && field.value.trim() === query ? placeIn(query, text) : undefined;
  if (place === undefined) return;
  const start = field.value.indexOf(query) + place;
  if (at("query").contains(document.activeElement)) field.focus();
  field.setSelectionRange(start, start);
}

export function running(on) {
  const run = at("run");
  if (on) run.dataset.running = "yes"; else delete run.dataset.running;
  run.textContent = on ? "Cancel" : "Run";
}

// Anybody who reaches the API may have put it on the list.
function pick(query) {
  write(query);
  acts.offer(query);
}

export async function loadSamples() {
  samples = await list("sample-queries");
  at("try").replaceChildren(...samples.slice(0, 6).map(({name, query}) => button(name, () => pick(query), {title: query})));
}

function menuOfSamples() {
  const text = at("text").value.trim(), same = samples.find(({query}) => query.trim() === text);
  const matching = text && !same ? samples.filter(({name, query}) => (name + " " + query).toLowerCase().includes(text.toLowerCase())) : samples;
  return ["Sample queries", ...(matching.length ? matching : samples).map(({name, query}) => [name, () => pick(query), query]), null,
    ...(same ? [["Remove “" + same.name + "” from this list…", () => remove(same)]] : text ? [["Put the query on this list…", () => keep(text)]] : ["Write a query to put it on this list"])];
}

async function keep(query) {
  const name = await ask({title: "Put the query on the list", label: "Name", ok: "Save", text: "Everybody who opens this page sees it.", input: {maxLength: 200},
    check: name => name.trim() ? "" : "It needs a name."});
  if (name) await change(list => [...list, {name: name.trim(), query}], "“" + name.trim() + "” is on the list");
}

async function remove(sample) {
  if (await ask({title: "Remove the query from the list?", text: "“" + sample.name + "” goes for everybody.", ok: "Remove"}))
    await change(list => list.filter(({name, query}) => name !== sample.name || query !== sample.query), "“" + sample.name + "” is no longer on the list");
}

// The list is read anew before it is replaced: somebody else may have changed it.
async function change(how, done) {
  try {
    await replaceList("sample-queries", how(await list("sample-queries")));
    await loadSamples();
    say(done);
  } catch (error) {
    say(error.message, {wrong: true});
  }
}
