// The explorer: brings the parts together. A query runs; what it finds is drawn, or shown as a table; from there one goes on.

import * as bar from "./bar.js";
import {Canvas} from "./canvas.js";
import * as cards from "./cards.js";
import {ask, at, button, closeMenu, copy, count, fileName, make, menu, menuBelow, save, say} from "./dom.js";
import * as panel from "./panel.js";
import {graphNamed, list, lookAt, offerGraphs, query, QueryError, sameScope, scope, standingQueries} from "./query.js";
import {about, asked, DEFAULT_QUICK, edged, edgesAmong, inlined, kindOfNode, neighbours, nodesById, observed, offered, onlyReads, sought} from "./rules.js";
import {Scene, Waiting} from "./scene.js";
import {edgeKey, found, moment, write} from "./values.js";

const ASK_ABOVE = 100, LIVE_NODES_MAX = 1000, EDGES_MAX = 20000, NEIGHBOURS_MAX = 5000, IDS_AT_ONCE = 2000, EDGES_PATIENCE_MILLIS = 400, EDGES_TIMEOUT = "15s", LEGEND_MAX = 9, PANEL_MILLIS = 250;

const scene = new Scene();
let quick = [DEFAULT_QUICK], running = null, lastQuery = "", others = 0;
const canvas = new Canvas(at("canvas"), scene, {menu: showMenu, open: openNode, choose: chosen, remove, undo, redo});

// ---- queries

async function run(text, asTable = false) {
  const name = observed(text);
  if (name) { bar.remember(text); bar.problem(null); return cards.watch(name); }
  if (running) return say("A query is running. Cancel it first, or wait for it.", {action: ["Cancel it", cancel]});
  bar.remember(text);
  bar.problem(null);
  const mine = running = new AbortController(), began = performance.now(), {atTime} = scope;
  const clock = setInterval(() => bar.tell("running", `running for ${Math.round((performance.now() - began) / 1000)} s`), 1000);
  bar.running(true);
  bar.tell("running", "running");
  try {
    const answer = await query(text, {}, {signal: mine.signal});
    clearInterval(clock);
    answer.millis = Math.round(performance.now() - began);
    answer.atTime = atTime;
    lastQuery = text;
    await take(text, answer, asTable);
  } catch (error) {
    if (error.name === "AbortError") bar.tell("empty", "cancelled");
    else { bar.tell("wrong", "failed"); bar.problem(error instanceof QueryError ? error.message : String(error), text); }
    if (!(error instanceof QueryError) && error.name !== "AbortError") console.error(error);
  } finally {
    clearInterval(clock);
    if (running === mine) { running = null; bar.running(false); }
  }
}

function cancel() { if (running) running.abort(); }

// The answer decides: what can be drawn is drawn, all else is a table.
async function take(text, answer, asTable) {
  const things = found(answer.rows), time = `${answer.millis.toLocaleString("en")} ms`, rows = count(answer.rows.length, "row");
  const drawable = things.nodes.length + things.edges.length > 0;
  Object.assign(answer, {nodes: things.nodes, edges: things.edges});
  running = null;
  bar.running(false);
  if (!answer.columns.length) return bar.tell("empty", `done in ${time}; the query gives no rows`);
  if (!answer.rows.length) { bar.tell("empty", `no rows in ${time}`); if (asTable) cards.show(text, answer); return; }
  bar.tell("good", `${rows} in ${time}`);
  if (asTable || !drawable) return cards.show(text, answer);
  // Another moment may have been chosen meanwhile: nodes as they were at two moments do not go together.
  if (answer.atTime !== scope.atTime) { say("The answer is of another moment than what is drawn, so it is a table."); return cards.show(text, answer); }
  const drawn = await draw(things);
  if (drawn === null) return;
  bar.tell("good", `${rows} in ${time}, ${drawn.nodes ? count(drawn.nodes, "new node") : "no new nodes"}, ${count(drawn.edges, "new edge")}`);
  if (things.others) say("The answer says more than can be drawn.", {action: ["Show the table", () => cards.show(text, answer)]});
}

// Asks beside the bar, as for what is clicked on.
let asides = new AbortController();
async function beside({text, parameters}, options) {
  busy(1);
  try {
    return await query(text, parameters, {...options, signal: asides.signal});
  } finally {
    busy(-1);
  }
}

// What is asked so. An error is told and gives null, and so does an answer about a graph or a moment that is not looked at any
// more, or that nobody waits for any more.
async function aside(asking, ...given) {
  const isSame = sameScope();
  try {
    const answer = await asking(...given);
    return isSame() ? answer : null;
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, {wrong: true});
    return null;
  }
}

// What is asked of many nodes by their ids, in parts: the rows of all.
async function rowsOf(asked, ids) {
  const parts = [];
  for (let i = 0; i < ids.length; i += IDS_AT_ONCE) parts.push(ids.slice(i, i + IDS_AT_ONCE));
  return (await Promise.all(parts.map(part => beside(asked(part))))).flatMap(({rows}) => rows);
}

// The edges that some nodes have with what is drawn, and whether these are all.
async function edgesBetween(ids, drawn) {
  const {rows} = await beside(edgesAmong(ids, drawn, EDGES_MAX + 1), {timeout: EDGES_TIMEOUT}), isAll = rows.length <= EDGES_MAX;
  if (!isAll) say(`There are more than ${EDGES_MAX.toLocaleString("en")} edges between these nodes: not all of them are drawn.`, {wrong: true});
  return {edges: found(rows.slice(0, EDGES_MAX)).edges, isAll};
}

function busy(change) {
  others += change;
  if (!others && document.activeElement === at("busy")) at("canvas").focus();
  at("busy").hidden = others === 0;
}

// Ends all that is asked beside the bar, in weir too.
function cancelAsides() {
  asides.abort();
  asides = new AbortController();
}

// Draws nodes and edges, with the edges between them and what is there. Answers how many are new, or null when nobody wants them.
// `live`: they come by themselves, so nobody is asked, and the oldest of them make room. `total`: of how many edges they are the
// first.
async function draw({nodes, edges}, {origin = null, edgeLabel = null, live = false, total = 0} = {}) {
  const isSame = sameScope();
  const here = new Set(nodes.map(node => node.id));
  const missing = [...new Set(edges.flatMap(edge => [edge.from, edge.to]))].filter(id => !here.has(id) && !scene.nodes.has(id));
  if (missing.length) nodes = [...nodes, ...found(await aside(rowsOf, nodesById, missing) || []).nodes];
  let fresh = nodes.filter(node => !scene.nodes.has(node.id));
  if (fresh.length > ASK_ABOVE) {
    const most = live ? ASK_ABOVE : await ask({title: "Draw so many nodes?", label: "How many to draw", ok: "Draw", all: String(fresh.length),
      text: `There are ${fresh.length.toLocaleString("en")} nodes that are not drawn yet.` + (total > nodes.length ? `\nThey are among the first ${nodes.length.toLocaleString("en")} that were asked for; there are ${total.toLocaleString("en")} edges of this type.` : ""),
      input: {type: "number", min: 0, step: 1, value: String(ASK_ABOVE), required: true}});
    if (most === null) return null;
    fresh = fresh.slice(0, Number(most));
  }
  if (!isSame()) return null;
  const ids = new Set(fresh.map(node => node.id)), wanted = nodes.filter(node => ids.has(node.id) || scene.nodes.has(node.id));
  const known = wanted.filter(node => scene.nodes.has(node.id)).map(node => node.id), touched = wanted.map(node => node.id);
  const synthetic = origin && edgeLabel ? touched.filter(id => id !== origin.id).map(id => ({key: edgeKey(origin.id, "~" + edgeLabel, id), from: origin.id, to: id, type: edgeLabel, properties: {}, synthetic: true})) : [];
  // Edges are waited for a moment, so that new nodes begin beside their neighbours. Those that take longer come later.
  const among = touched.length ? aside(edgesBetween, touched, [...new Set([...scene.nodes.keys(), ...touched])]).then(answer => answer?.edges || []) : Promise.resolve([]);
  const soon = await Promise.race([among, new Promise(resolve => setTimeout(resolve, EDGES_PATIENCE_MILLIS, null))]);
  if (!isSame()) return null;
  const step = scene.add({nodes: wanted, edges: [...edges, ...synthetic, ...(soon || [])]});
  // What somebody asks for stays, however it came first, and what it is around.
  if (origin && !live) origin.live = false;
  for (const node of wanted.map(({id}) => scene.nodes.get(id))) {
    if (!live) node.live = false;
    canvas.dress(node);
  }
  if (live) {
    for (const node of step.nodes) node.live = true;
    scene.trim(LIVE_NODES_MAX);
  }
  canvas.changed(step.nodes, origin);
  if (soon === null) among.then(edges => { if (isSame()) { scene.extend(step, {edges}); canvas.changed(); } });
  flash(known);
  return {nodes: step.nodes.length, edges: step.edges.length};
}

// Shows where nodes are that were there before.
function flash(ids) {
  if (!ids.length || ids.length === scene.nodes.size && ids.length > 40) return;
  canvas.marked = new Set(ids);
  canvas.redraw();
  setTimeout(() => { canvas.marked = new Set(); canvas.redraw(); }, 700);
}

// Nodes by ids that came with results of a standing query: a few requests a second, however many results there are.
const idsToDraw = new Waiting(LIVE_NODES_MAX);
let drawingIds = null, isBehind = false;
function drawIds(ids) {
  const gone = idsToDraw.put(ids);
  if (gone && !isBehind) say("Results come faster than their nodes can be drawn: some of the nodes are left out.", {wrong: true});
  isBehind ||= gone > 0;
  drawingIds ??= setTimeout(async () => {
    const some = idsToDraw.take(ASK_ABOVE, id => !scene.nodes.has(id)), answer = some.length && await aside(beside, nodesById(some));
    if (answer) await draw(found(answer.rows), {live: true});
    drawingIds = null;
    if (idsToDraw.size) drawIds([]); else isBehind = false;
  }, 300);
}

async function runQuick({quickQuery}, nodes) {
  const asked = about(nodes.map(node => node.id), quickQuery.querySuffix), began = performance.now(), answer = await aside(beside, asked);
  if (!answer) return;
  answer.millis = Math.round(performance.now() - began);
  answer.atTime = scope.atTime;
  const things = found(answer.rows);
  if (quickQuery.sort === "Text") return cards.show(inlined(asked), Object.assign(answer, {nodes: things.nodes, edges: things.edges}));
  const drawn = await draw(things, {origin: nodes[0], edgeLabel: quickQuery.edgeLabel});
  if (drawn && !drawn.nodes) say(things.nodes.length ? "All that it finds is drawn already." : `“${quickQuery.name}” finds nothing.`);
}

function openNode(node) {
  const first = offered(quick, [node])[0];
  if (first) runQuick(first, [node]); else say("No quick query is for this node.");
}

// `edges`: how many of this type there are.
async function expand(node, type, out, edges) {
  const answer = await aside(beside, neighbours(node.id, type, out, NEIGHBOURS_MAX));
  if (!answer) return;
  const isAll = answer.rows.length < NEIGHBOURS_MAX, drawn = await draw(found(answer.rows), {origin: node, total: isAll ? 0 : edges});
  if (drawn && !drawn.nodes) say(isAll ? "All of them are drawn already." : `No more than ${NEIGHBOURS_MAX.toLocaleString("en")} are asked for at once, and those are drawn already.`);
}

// A table may be of another moment than what is drawn.
function drawCard(card) {
  if (card.atTime === scope.atTime) draw(card); else say("This answer is of another moment than what is drawn. Run it again.", {wrong: true});
}

// Those of some nodes that have nothing, no edge either. Where that is not answered no node is taken for one of them.
async function goneOf(ids, read, edges) {
  const ends = new Set(edges.flatMap(({from, to}) => [from, to])), isBare = node => !node || !node.labels.length && !Object.keys(node.properties).length;
  const bare = ids.filter(id => isBare(read.get(id)) && !ends.has(id)), rows = await rowsOf(edged, bare).catch(() => bare.map(id => [id]));
  const some = new Set(rows.map(([id]) => id));
  return new Set(bare.filter(id => !some.has(id)));
}

// Reads nodes again as they are at the moment that is looked at, and the edges between all. Answers whether the nodes could be
// read: where they could not, all is as it was before. `moved`: what is drawn is of another moment.
async function refresh(nodes = [...scene.nodes.values()], {moved = false} = {}) {
  const ids = nodes.map(node => node.id), drawn = [...scene.nodes.keys()], asked = new Set(drawn), isSame = sameScope();
  if (!ids.length) return true;
  const reason = error => error.name === "AbortError" ? "that was cancelled" : error.message;
  let read, edges = [], isAll = false, gone = new Set();
  try {
    read = new Map(found(await rowsOf(nodesById, ids)).nodes.map(node => [node.id, node]));
  } catch (error) {
    if (isSame()) say("What is drawn could not be read again, and is as it was before: " + reason(error), {wrong: true});
    return false;
  }
  try {
    ({edges, isAll} = await edgesBetween(ids, drawn));
    gone = await goneOf(ids, read, edges);
  } catch (error) {
    if (isSame()) say(`The edges could not be read again, and ${moved ? "are missing" : "are as they were before"}: ${reason(error)}`, {wrong: true});
  }
  if (!isSame()) return false;
  const keys = new Set(edges.map(edge => edge.key)), all = new Set(ids);
  for (const node of nodes) { Object.assign(node, read.get(node.id) || {labels: [], properties: {}}, {gone: gone.has(node.id)}); canvas.dress(node); }
  // What was not found is not there if all were; or it is of another moment.
  const vanished = edge => !edge.synthetic && !keys.has(edge.key) && (all.has(edge.from) || all.has(edge.to)) && asked.has(edge.from) && asked.has(edge.to);
  if (isAll || moved) scene.remove([], [...scene.edges.values()].filter(vanished).map(edge => edge.key), {remember: !moved});
  scene.add({edges}, {remember: false});
  panel.forget();
  canvas.changed();
  return true;
}

// ---- what is chosen, menus

let panelSoon = 0;
function chosen() {
  const show = () => panel.show(canvas.chosenNodes(), canvas.chosenEdge && scene.edges.get(canvas.chosenEdge));
  clearTimeout(panelSoon);
  // It opens over the canvas: not between the two clicks of a double click.
  if (at("panel").hidden && scene.chosen.size === 1) panelSoon = setTimeout(show, PANEL_MILLIS); else show();
  at("empty").hidden = scene.nodes.size > 0;
  at("undo").disabled = !scene.back.length;
  at("redo").disabled = !scene.forth.length;
  at("counts").textContent = scene.nodes.size ? `${count(scene.nodes.size, "node")}, ${count(scene.edges.size, "edge")}` : "";
  legend();
}

function legend() {
  if (legend.version === scene.version) return;
  legend.version = scene.version;
  const byLabel = new Map();
  for (const node of scene.nodes.values()) {
    const name = kindOfNode(node);
    if (!byLabel.has(name)) byLabel.set(name, []);
    byLabel.get(name).push(node);
  }
  const sorted = [...byLabel].sort((a, b) => b[1].length - a[1].length);
  at("labels").replaceChildren(...sorted.slice(0, LEGEND_MAX).map(([name, nodes]) => {
    const dot = make("span", {className: "dot"});
    if (nodes[0].gone) dot.classList.add("hollow"); else dot.style.background = nodes[0].color || canvas.theme.node;
    return make("button", {type: "button", className: "plain legend", title: "Choose these", on: {click: () => canvas.choose(nodes.map(node => node.id))}},
      dot, name, make("span", {className: "soft"}, " " + nodes.length.toLocaleString("en")));
  }), sorted.length > LEGEND_MAX ? make("span", {className: "soft"}, "and " + count(sorted.length - LEGEND_MAX, "more label")) : "");
}

function showMenu(x, y, node) {
  const nodes = canvas.chosenNodes();
  if (node && nodes.length) {
    const one = nodes.length === 1, queries = offered(quick, nodes);
    return menu(x, y, [one ? node.caption : count(nodes.length, "node"),
      ...queries.map(entry => [entry.quickQuery.name, () => runQuick(entry, nodes), entry.quickQuery.querySuffix]), null,
      ["Choose neighbours", () => chooseNeighbours(nodes)], ...(one ? [["Copy the id", () => copy(node.id, "The id is copied")]] : []),
      nodes.some(node => node.pinned) ? ["Unpin", () => canvas.unpin(nodes)] : ["Pin", () => { nodes.forEach(node => { node.pinned = true; }); canvas.redraw(); }],
      ["Remove from the canvas", remove], ["Remove all others", () => removeOthers(nodes)]], "What to do");
  }
  menu(x, y, ["Canvas", ["Choose all", () => canvas.choose([...scene.nodes.keys()])], ["Fit into view", () => canvas.fit()], ["Read all again", () => refresh()], null, ...saves(), null, ["Clear the canvas", clear]], "What to do");
}

const saves = () => [
  ["Save as SVG", () => save(fileName(".svg"), canvas.svg(), "image/svg+xml")],
  ["Save as PNG", async () => { const picture = await canvas.png(); if (picture) save(fileName(".png"), picture); else say("The picture would be too large.", {wrong: true}); }],
  ["Save as JSON", () => save(fileName(".json"), graphJson(), "application/json")],
  ["Copy a link to this view", () => copy(link(), "The link is copied")],
];

function graphJson() {
  const nodes = [...scene.nodes.values()].map(({id, labels, properties, gone, x, y}) => ({id, labels, properties, ...(gone ? {gone} : {}), x: Math.round(x), y: Math.round(y)}));
  const edges = [...scene.edges.values()].map(({from, type, to, properties, synthetic}) => ({from, type, to, properties, ...(synthetic ? {synthetic} : {})}));
  return write({atTime: scope.atTime, nodes, edges}, "  ") + "\n";
}

function link() {
  const search = new URLSearchParams();
  if (canvas.layout === "tree") search.set("layout", "tree");
  if (scope.atTime !== null) search.set("atTime", scope.atTime);
  if (scope.namespace !== "default") search.set("namespace", scope.namespace);
  const text = lastQuery || at("text").value.trim();
  return location.origin + location.pathname + (search.size ? "?" + search : "") + (text ? "#query=" + encodeURIComponent(text) : "");
}

function chooseNeighbours(nodes) {
  const ids = new Set(nodes.map(node => node.id)), from = new Set(ids);
  for (const edge of scene.edges.values()) { if (from.has(edge.from)) ids.add(edge.to); if (from.has(edge.to)) ids.add(edge.from); }
  canvas.choose(ids);
}

function remove() {
  if (canvas.chosenEdge) scene.remove([], [canvas.chosenEdge]); else scene.remove(scene.chosen);
  canvas.changed();
}

function removeOthers(nodes) {
  const kept = new Set(nodes.map(node => node.id));
  scene.remove([...scene.nodes.keys()].filter(id => !kept.has(id)));
  canvas.changed();
}

function clear() {
  scene.clear();
  canvas.changed();
  canvas.fit();
}

function undo() { if (scene.undo()) canvas.changed(); }
function redo() { if (scene.redo()) canvas.changed(); }

// ---- the moment, the graph, live results

const MOMENTS = [["A minute ago", "-1m"], ["15 minutes ago", "-15m"], ["An hour ago", "-1h"], ["A day ago", "-1d"]];

function chooseTime() {
  menuBelow(at("time"), ["Look at the graph as it", ["is now", () => setTime(null)], "was", ...MOMENTS.map(([name, text]) => [name, () => setTime(moment(text, Date.now()))]), ["At another moment…", askTime]], "Moment");
}

async function askTime() {
  const wrong = text => { const at = moment(text, Date.now()); return at === undefined ? "This is no moment." : at > Date.now() ? "This lies in the future." : ""; };
  const shown = scope.atTime === null ? new Date() : new Date(scope.atTime);
  const text = await ask({title: "Look at the graph as it was", label: "Moment", text: "A date and time, milliseconds since 1970, how long ago (-90s, -15m, -2h, -3d), or now.", ok: "Look",
    input: {value: new Date(shown - shown.getTimezoneOffset() * 60000).toISOString().slice(0, 19).replace("T", " ")}, check: wrong});
  if (text !== null) setTime(moment(text, Date.now()));
}

// The moment that what is drawn is of. Where it cannot be read at another one, that is the one that is looked at.
let drawnAt = null, turns = 0;
async function setTime(millis) {
  const mine = ++turns;
  turnTo(millis);
  scene.forget();
  cancelAsides();
  if (await refresh(undefined, {moved: true})) drawnAt = millis; else if (mine === turns) turnTo(drawnAt);
}

function turnTo(millis) {
  scope.atTime = millis;
  tellTime();
  tellAddress("atTime", millis);
}

// What is looked at stands in the address, so that it is there when the page is loaded anew.
function tellAddress(name, value) {
  const search = new URLSearchParams(location.search);
  if (value === null) search.delete(name); else search.set(name, value);
  history.replaceState(null, "", location.pathname + (search.size ? "?" + search : "") + location.hash);
}

function tellTime() {
  const past = scope.atTime !== null;
  document.body.classList.toggle("past", past);
  at("time").textContent = past ? "as of " + new Date(scope.atTime).toLocaleString() : "now";
  at("past").hidden = !past;
}

async function loadNamespaces(wanted) {
  if (!await offerGraphs(at("namespace"), graphNamed(wanted))) say(`There is no namespace “${wanted}”.`, {wrong: true});
}

function setNamespace(name) {
  cancel();
  cancelAsides();
  lookAt(name);
  tellAddress("namespace", name === "default" ? null : name);
  turns++;
  drawnAt = scope.atTime;
  idsToDraw.clear();
  scene.reset();
  cards.closeAll();
  canvas.changed();
}

async function chooseLive() {
  let all;
  try { all = await standingQueries(); } catch (error) { return say(error.message, {wrong: true}); }
  const dialog = make("dialog", {ariaLabel: "Results as they come", className: "wide"}, make("h2", {}, "Results of standing queries, as they come"),
    all.length ? null : make("p", {}, "There is no standing query in this graph."),
    ...all.map(({name, pattern, stats}) => {
      const rate = Object.values(stats || {}).reduce((sum, one) => sum + (one.rates?.oneMinute || 0), 0);
      return make("div", {className: "standing"}, make("div", {}, make("b", {}, name), make("span", {className: "soft"}, ` ${rate.toFixed(1)} a second`),
        make("pre", {}, typeof pattern?.query === "string" ? pattern.query.trim() : write(pattern, "  "))), button("Watch", () => { dialog.close(); cards.watch(name); }, {ariaLabel: "Watch " + name}));
    }), make("div", {className: "buttons"}, button("Close", () => dialog.close())));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// ---- search on the canvas

let hits = [], hit = -1;
function find() {
  const text = at("find-text").value;
  hits = sought([...scene.nodes.values()], text);
  hit = -1;
  canvas.found = new Set(hits.map(node => node.id));
  at("find-count").textContent = text.trim() ? hits.length ? count(hits.length, "node") : "none" : "";
  canvas.redraw();
}

function openFind(open) {
  at("find").hidden = !open;
  if (open) { at("find-text").focus(); at("find-text").select(); find(); return; }
  canvas.found = new Set();
  canvas.redraw();
  at("canvas").focus();
}

function findKey(event) {
  if (event.key === "Escape") openFind(false);
  if (event.key !== "Enter" || !hits.length) return;
  hit = (hit + (event.shiftKey ? -1 : 1) + hits.length) % hits.length;
  at("find-count").textContent = `${hit + 1} of ${hits.length}`;
  canvas.show(hits[hit]);
}

// ---- the start

const on = (id, act) => at(id).addEventListener("click", act);

function prepare() {
  bar.prepare({run, cancel, offer});
  cards.prepare({edit: bar.write, run: text => run(text, true), draw: drawCard, drawIds});
  cards.resizable();
  panel.prepare({query: ({text, parameters}) => query(text, parameters, {timeout: EDGES_TIMEOUT}), expand, refresh, remove, unpin: nodes => canvas.unpin(nodes), choose: ids => canvas.choose(ids), caption: id => scene.nodes.get(id)?.caption || id});
  on("undo", undo);
  on("redo", redo);
  on("fit", () => canvas.fit());
  on("zoom-in", () => canvas.zoom(1.3));
  on("zoom-out", () => canvas.zoom(1 / 1.3));
  on("play", () => { canvas.playing = !canvas.playing; at("play").ariaPressed = String(canvas.playing); canvas.redraw(); });
  on("layout", () => setLayout(canvas.layout === "tree" ? "graph" : "tree"));
  on("refresh", () => refresh());
  on("search", () => openFind(at("find").hidden));
  on("save", () => menuBelow(at("save"), ["This view", ...saves(), null, ["Clear the canvas", clear]], "Save"));
  on("time", chooseTime);
  on("to-now", () => setTime(null));
  on("live", chooseLive);
  on("busy", cancelAsides);
  on("problem-close", () => bar.problem(null));
  at("find-text").addEventListener("input", find);
  at("find-text").addEventListener("keydown", findKey);
  on("find-close", () => openFind(false));
  at("panel").addEventListener("keydown", event => { if (event.key === "Escape") { canvas.choose([]); at("canvas").focus(); } });
  at("namespace").addEventListener("change", event => setNamespace(event.target.value));
  addEventListener("keydown", event => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f" && event.target !== at("text") && scene.nodes.size) { event.preventDefault(); openFind(true); }
    if (event.key !== "Escape") return;
    closeMenu();
    // What Escape closes first is not what is asked.
    if (others && !event.target.closest("dialog, #find, #panel")) cancelAsides();
  });
  addEventListener("hashchange", begin);
}

function setLayout(layout) {
  at("layout").ariaPressed = String(layout === "tree");
  canvas.setLayout(layout);
}

// Anybody may have made a link, or a sample: what is not known to read the graph and do nothing else runs only if that is wanted.
async function mayRun(text, what = "the query of this link") {
  if (observed(text)) return true;
  const reads = onlyReads(text) && await query("EXPLAIN " + text).then(({rows}) => rows[0]?.[0]?.isReadOnly === true, () => false);
  return reads || await ask({title: `Run ${what}?`, text: `It may do more than read the graph, or is wrong.\n${text}`, ok: "Run"}) !== null;
}

// A sample stands in the bar; if something else does when it is known what it does, nobody wants it any more.
async function offer(text) {
  const shown = at("text").value;
  if (await mayRun(text, "this query") && at("text").value === shown) run(text);
}

// What the address asks for. The query goes from there once it is read, so that loading the page again does not run it again.
async function begin() {
  const wanted = asked(location.search, location.hash);
  if (!wanted.query) return;
  history.replaceState(null, "", location.pathname + location.search);
  at("text").value = wanted.query;
  at("text").dispatchEvent(new Event("input"));
  if (await mayRun(wanted.query)) run(wanted.query);
}

async function start() {
  const wanted = asked(location.search, location.hash), at_ = moment(wanted.atTime, Date.now());
  prepare();
  document.body.classList.toggle("embedded", !wanted.interactive);
  if (at_ === undefined || at_ > Date.now()) say(`“${wanted.atTime}” is no moment of the past; this is the graph as it is now.`, {wrong: true});
  else scope.atTime = drawnAt = at_;
  lookAt(graphNamed(wanted.namespace));
  tellTime();
  setLayout(wanted.layout);
  chosen();
  if (wanted.interactive) at("text").focus();
  await loadLists();
  begin();
}

// What there is to choose from and how it looks, by the server's lists.
async function loadLists() {
  const loads = await Promise.allSettled([loadNamespaces(scope.namespace), bar.loadSamples(),
    list("quick-queries").then(all => { quick = all; }), list("node-appearances").then(rules => canvas.setRules(rules))]);
  const failed = loads.find(({status}) => status === "rejected");
  if (failed) say(failed.reason.message, {wrong: true, action: ["Try again", loadLists]});
}

start();
