// Tables below the canvas: answers of queries and results of standing queries, each a tab, with their rows as text, JSON or CSV.

import {at, button, copy, count, fileName, make, menuBelow, putLong, save, say} from "./dom.js";
import {cut} from "./draw.js";
import {Following, within} from "./query.js";
import {isEdge, isNode, kindOf, parse, possibleIds, shown, toCsv, toJson, write} from "./values.js";

const ROWS_AT_ONCE = 200, CELL_MAX = 400, CARDS_MAX = 12, LIVE_ROWS_MAX = 1000, LIVE_MILLIS = 150;
// A browser keeps six connections to a server of HTTP/1.1, those of all its pages together: with a page of streams beside this one
// some are left for queries.
const LIVE_MAX = 2;
const cards = [];
let open = null, acts = null;

// `given`: what happens on edit(text), run(text), draw(answer), drawIds(ids).
export function prepare(given) { acts = given; }

// An answer as a table. A query that is asked again has one card, the new answer in it.
export function show(text, answer) {
  const card = cards.find(card => card.text === text && !card.live) || add({text, title: cut(text.replace(/\s+/g, " ").trim(), 40)});
  Object.assign(card, answer, {visible: ROWS_AT_ONCE});
  select(card);
}

// Results of a standing query as they come.
export function watch(name) {
  const there = cards.find(card => card.live === name);
  if (there) return select(there);
  if (!mayWatch(name)) return;
  const card = add({live: name, text: "OBSERVE `" + name + "`", title: "● " + name, columns: ["change", "at"], rows: [], visible: ROWS_AT_ONCE, drawing: false, came: 0, seen: 0, dropped: 0, state: "", gap: ""});
  let due = 0;
  const later = card.later = () => { due ||= setTimeout(() => { due = 0; if (open === card) renew(); }, LIVE_MILLIS); };
  const take = event => {
    const {data} = parse(event.data), sign = event.type === "result" ? "+" : "−", map = data !== null && typeof data === "object" && !Array.isArray(data) && !isNode(data);
    const entries = map ? Object.entries(data) : [["value", data]];
    for (const [key] of entries) if (!card.columns.slice(2).includes(key)) card.columns.push(key);
    const values = Object.fromEntries(entries);
    card.rows.unshift([sign, new Date().toISOString(), ...card.columns.slice(2).map(key => values[key] ?? null)]);
    card.came++;
    if (card.rows.length > LIVE_ROWS_MAX) { card.rows.pop(); card.dropped++; }
    if (card.drawing && sign === "+") acts.drawIds(possibleIds(data));
    later();
  };
  const turn = state => { card.state = state; later(); };
  const end = state => {
    card.following.stop();
    Object.assign(card, {isFollowed: false, state});
    if (open === card) render();
  };
  card.following = new Following(name, {take, opens: () => turn("live"), waits: turn, missed: text => { card.gap = text; later(); }, ended: () => end("ended: there is no such query any more")});
  const begin = () => {
    card.isFollowed = true;
    card.following.start();
  };
  card.toggle = () => {
    if (card.isFollowed) return end("stopped");
    if (!mayWatch(name)) return;
    begin();
    render();
  };
  begin();
  select(card);
}

function mayWatch(name) {
  try { within(encodeURIComponent(name)); } catch (error) { say(error.message, {wrong: true}); return false; }
  const may = cards.filter(card => card.isFollowed).length < LIVE_MAX;
  if (!may) say(`Only ${LIVE_MAX} queries are watched at a time, since a browser has few connections. Stop or close one first.`, {wrong: true});
  return may;
}

function add(card) {
  cards.unshift(card);
  while (cards.length > CARDS_MAX) { const last = cards.findLast((card, i) => i && !card.isFollowed); if (!last) break; cards.splice(cards.indexOf(last), 1); }
  return card;
}

export function closeAll() { [...cards].forEach(close); }

function close(card) {
  card.following?.stop();
  cards.splice(cards.indexOf(card), 1);
  if (open === card) open = cards[0] || null;
  render();
}

function select(card) {
  open = card;
  at("dock").classList.remove("small");
  render();
}

// Somebody points into the table, is in it with the keyboard, or has chosen a text there.
function isHeld(rows) {
  const selection = getSelection();
  return rows.matches(":hover, :focus-within") || !selection.isCollapsed && selection.containsNode(rows, true);
}

// New rows of the table that is shown, unless it is held. All else stays: what is pressed or read meanwhile must not be replaced.
function renew() {
  const dock = at("dock"), rows = dock.querySelector(".rows");
  if (!rows) return;
  const {scrollTop, scrollLeft} = rows, held = open.seen && isHeld(rows) ? open.came - open.seen : 0;
  dock.querySelector(".told").textContent = told(open) + (held ? `; held while you look: ${held.toLocaleString("en")} more` : "");
  if (held) return;
  rows.replaceChildren(...content(open));
  Object.assign(rows, {scrollTop, scrollLeft});
}

const release = () => { if (open?.live && open.came > open.seen) open.later(); };
document.addEventListener("selectionchange", release);

const FOCUSABLE = "button, input, [tabindex]";

function render() {
  const dock = at("dock"), {scrollTop = 0, scrollLeft = 0} = dock.querySelector(".rows") || {}, same = dock.shown === open;
  const focused = [...dock.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  build(dock);
  if (same && dock.querySelector(".rows")) Object.assign(dock.querySelector(".rows"), {scrollTop, scrollLeft});
  // Whoever pressed a button with the keyboard goes on from there; with the last table gone, on the canvas.
  const all = dock.querySelectorAll(FOCUSABLE);
  if (focused >= 0) (all[Math.min(focused, all.length - 1)] || at("canvas")).focus({preventScroll: true});
}

function build(dock) {
  dock.hidden = !cards.length;
  dock.shown = open;
  if (!open) return dock.replaceChildren();
  const small = button(dock.classList.contains("small") ? "▴" : "▾", () => { dock.classList.toggle("small"); render(); }, {className: "plain", ariaLabel: "Show or hide the table"});
  const tabs = make("div", {className: "tabs", role: "tablist", ariaLabel: "Tables"}, ...cards.map(card => make("span", {className: card === open ? "tab open" : "tab"},
    button(card.title, () => select(card), {title: card.text, className: "plain", role: "tab", ariaSelected: String(card === open)}),
    button("×", () => close(card), {className: "plain", ariaLabel: "Close " + card.title}))));
  const head = make("div", {className: "dock-head"}, small, tabs);
  if (dock.classList.contains("small")) return dock.replaceChildren(head);
  dock.replaceChildren(head, tools(open), make("div", {className: "rows", tabIndex: 0, role: "region", ariaLabel: "Rows", on: {pointerleave: release, focusout: release}}, ...content(open)));
}

function content(card) {
  card.seen = card.came;
  const body = card.asJson ? make("pre", {tabIndex: 0}, cut(toJson(card.columns, card.rows.slice(0, card.visible)), 2e6)) : table(card);
  return [body, more(card)].filter(Boolean);
}

function told(card) {
  if (card.live) return `${count(card.came, "result")}, ${card.state}${card.dropped ? `; the last ${LIVE_ROWS_MAX} are kept` : ""}${card.gap ? ". " + card.gap : ""}`;
  const moment = typeof card.atTime === "number" ? ", as of " + new Date(card.atTime).toLocaleString() : "";
  return count(card.rows.length, "row") + (card.millis === undefined ? "" : `, ${card.millis} ms`) + moment;
}

function tools(card) {
  // As they are when they are copied: more of both may have come.
  const {columns, rows} = card, kept = event => menuBelow(event.target, [
    ["Copy as JSON", () => copy(toJson(columns, rows))], ["Copy as CSV", () => copy(toCsv(columns, rows))],
    ["Save as JSON", () => save(fileName(".json"), toJson(columns, rows), "application/json")],
    ["Save as CSV", () => save(fileName(".csv"), toCsv(columns, rows), "text/csv")]], "Rows as a file");
  const drawable = !card.live && (card.nodes?.length || card.edges?.length);
  const drawLive = card.live && make("label", {title: "Nodes whose ids a result holds are drawn as it comes"}, make("input", {type: "checkbox", checked: card.drawing, on: {change: event => {
    card.drawing = event.target.checked;
    if (card.drawing) acts.drawIds(rows.filter(row => row[0] === "+").slice(0, 50).flatMap(row => possibleIds(Object.fromEntries(columns.slice(2).map((key, i) => [key, row[i + 2]])))));
  }}}), " draw");
  return make("div", {className: "dock-tools"}, make("span", {className: "soft told", role: card.live ? null : "status"}, told(card)), make("span", {className: "gap"}),
    drawLive || null, card.live ? button(card.isFollowed ? "Stop" : "Go on", card.toggle) : null,
    drawable ? button("Draw", () => acts.draw(card)) : null,
    button(card.asJson ? "Table" : "JSON", () => { card.asJson = !card.asJson; render(); }), button("Copy ▾", kept, {ariaHasPopup: "menu"}),
    card.live ? null : button("Edit", () => acts.edit(card.text)), card.live ? null : button("Run again", () => acts.run(card.text)));
}

function table({columns, rows, visible, live}) {
  if (!columns.length) return make("p", {className: "soft"}, "The query gives nothing.");
  const head = make("tr", {}, ...columns.map(name => make("th", {scope: "col"}, name)));
  const body = rows.slice(0, visible).map(row => make("tr", {className: live && row[0] === "−" ? "gone" : ""}, ...columns.map((_, i) => live && i === 1 ? make("td", {title: row[i]}, new Date(row[i]).toLocaleTimeString()) : cell(row[i]))));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}

function cell(value) {
  const kind = kindOf(value ?? null);
  if (kind === "null") return make("td", {className: "null"}, "null");
  const content = isNode(value) ? nodeChip(value) : isEdge(value) ? make("span", {className: "chip edge"}, value.name) : null;
  if (content) return make("td", {title: cut(write(value), 1000)}, content, " ", make("span", {className: "soft"}, cut(preview(value.properties), 120)));
  const text = shown(value);
  return putLong(make("td", {className: kind}), text, CELL_MAX);
}

const nodeChip = node => make("span", {className: "chip"}, node.labels.join(":") || "node");
const preview = properties => Object.entries(properties).slice(0, 6).map(([key, value]) => key + ": " + shown(value)).join("  ");

function more(card) {
  const left = card.rows.length - card.visible;
  if (left <= 0) return null;
  return button(`${Math.min(left, ROWS_AT_ONCE * 2).toLocaleString("en")} more of ${left.toLocaleString("en")}`, () => { card.visible += ROWS_AT_ONCE * 2; render(); }, {className: "more"});
}

// The dock is as high as it was dragged.
export function resizable() {
  const bar = at("dock-bar");
  const set = height => document.documentElement.style.setProperty("--dock", Math.round(Math.max(90, Math.min(height, innerHeight * 0.8))) + "px");
  bar.addEventListener("pointerdown", event => {
    bar.setPointerCapture(event.pointerId);
    bar.onpointermove = moved => set(innerHeight - moved.clientY);
  });
  bar.addEventListener("lostpointercapture", () => { bar.onpointermove = null; });
  bar.addEventListener("keydown", event => {
    const step = {ArrowUp: 40, ArrowDown: -40}[event.key];
    if (step) { event.preventDefault(); set(at("dock").offsetHeight + step); }
  });
}
