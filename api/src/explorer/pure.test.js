// Tests of the modules that know no page: `node --test` in this folder. They are not served.

import assert from "node:assert/strict";
import {test} from "node:test";

import {contrast, course, cut, draw, inkOn, links, signOf, SvgPen} from "./draw.js";
import {bounds, Forces, place, tree} from "./layout.js";
import {about, appearance, asked, edgesAmong, fits, inlined, kindOfNode, neighbours, observed, offered, onlyReads, placeIn, sought} from "./rules.js";
import {Past, Scene, Waiting} from "./scene.js";
import {edgeKey, found, kindOf, moment, parse, possibleIds, shown, toCsv, toJson, write} from "./values.js";

const node = (id, labels = [], properties = {}) => ({id, labels, properties});
const edge = (from, type, to) => ({key: edgeKey(from, type, to), from, to, type, properties: {}});

test("numbers stay as they were sent", () => {
  const text = '{"a":[9007199254740993,1.0,1.5,-0,1e400],"b":"9007199254740993 \\" 1.0","c":null}';
  assert.equal(write(parse(text)), text);
  assert.deepEqual(parse(text).a.map(kindOf), ["integer", "float", "float", "integer", "float"]);
  assert.equal(shown(parse("[1.0]")[0]), "1.0");
  const odd = '{"a\\\\":"\\\\\\" 1.0","b":[1.0,"2.0"]}';
  assert.equal(write(parse(odd)), odd);
  // Texts of many megabytes, also of nothing but escapes, need no stack.
  for (const part of ["x", "\\\\", '\\"']) {
    const large = '["' + part.repeat(1e7) + '",1.0]';
    assert.ok(write(parse(large)) === large, part);
  }
  assert.equal(write({a: [1, {}], b: []}, "  "), '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": []\n}');
});

test("what only begins like a number is no JSON", () => {
  for (const text of ["10.0.0.1", "2026-11-30", "007", "555-1234", "3.", ".5", "1.e5", "1e", "--1.0", "[1.0.0]", "1.0 2.0", "1.0x"]) assert.throws(() => parse(text), SyntaxError, text);
  for (const text of ["-0.50", "1E+3", "1e05", "0.0", "-12345678901234567890"]) assert.equal(write(parse(text)), text);
});

test("nodes, edges and paths are found however deep", () => {
  const a = node("1", ["A"]), b = node("2"), e = {start: "1", end: "2", name: "R", properties: {}};
  const {nodes, edges, others} = found([[[a, e, b], null], [{x: [a]}, [[b]]]]);
  assert.deepEqual([nodes.length, edges.length, others], [2, 1, false]);
  assert.equal(edges[0].key, edgeKey("1", "R", "2"));
  assert.equal(found([[a, 1]]).others, true);
  assert.deepEqual(found([[{id: 1, labels: "x", properties: {}}]]).nodes, []);
  // Ids of any scheme: numbers as their text, however large.
  assert.equal(found([[parse('{"id":9007199254740993,"labels":[],"properties":{}}')]]).nodes[0].id, "9007199254740993");
});

test("ids are guessed among results", () => {
  const uuid = "27dd96d6-75be-30f8-8d97-71b670468f39";
  assert.deepEqual(possibleIds({who: uuid, "strId(n)": "7", nodeIds: ["8", "9"], n: node("10"), name: "x", idle: "no"}), [uuid, "7", "8", "9", "10"]);
});

test("ids wait for their turn, and the oldest go where too many do", () => {
  const waiting = new Waiting(250), ids = Array.from({length: 240}, (_, i) => String(i));
  assert.equal(waiting.put(ids), 0);
  // One that is there already takes no turn, and one that comes twice waits once.
  assert.equal(waiting.put(["0", "239"]), 0);
  const turns = [];
  while (waiting.size) turns.push(waiting.take(100, id => id !== "5"));
  assert.deepEqual(turns.map(turn => turn.length), [100, 100, 39]);
  assert.deepEqual(turns.flat(), ids.filter(id => id !== "5"));
  assert.equal(waiting.put([...ids, ...Array.from({length: 20}, (_, i) => "new" + i)]), 10);
  assert.equal(waiting.take(1, () => true)[0], "10");
  assert.equal(waiting.size, 249);
  waiting.clear();
  assert.equal(waiting.size, 0);
});

test("tables become JSON and CSV", () => {
  assert.equal(toCsv(["a", "b,c"], [["x\"y", null], [1, [1]], [2]]), 'a,"b,c"\r\n"x""y",\r\n1,[1]\r\n2,\r\n');
  assert.deepEqual(JSON.parse(toJson(["a", "a"], [[1, 2]])), [{a: 1, a_2: 2}]);
});

test("moments", () => {
  const now = 1e12;
  assert.equal(moment(" now ", now), null);
  assert.equal(moment("-15m", now), now - 9e5);
  assert.equal(moment("2 hours ago", now), now - 72e5);
  assert.deepEqual(["1700000000000", "15", "0"].map(text => moment(text, now)), [17e11, 15, 0]);
  assert.equal(moment("2026-03-01T10:00:00Z", now), Date.UTC(2026, 2, 1, 10));
  assert.deepEqual(["some time", "2 months ago", "3 milliseconds"].map(text => moment(text, now)), [undefined, undefined, undefined]);
  assert.equal(moment("90 SECONDS ago", now), now - 9e4);
});

test("rules fit by label, keys and values", () => {
  const n = node("1", ["A", "B"], {x: 1, y: null, l: [1]});
  assert.ok(fits({propertyKeys: ["x"], knownValues: {l: [1]}, dbLabel: "B"}, n));
  assert.ok(fits({propertyKeys: [], knownValues: {}}, n));
  // All labels in order, as one text.
  assert.ok(fits({dbLabel: "A:B"}, n) && fits({dbLabel: "A:B"}, node("1", ["B", "A"])));
  const nested = node("1", [], {m: {a: 1, b: [{c: 2, d: 3}]}});
  assert.ok(fits({knownValues: {m: {b: [{d: 3, c: 2}], a: 1}}}, nested) && !fits({knownValues: {m: {b: [{d: 3, c: 2}]}}}, nested));
  // Numbers by what they are.
  const numbers = node("1", [], parse('{"a":1.0,"b":[-2.50],"c":9007199254740993,"d":1e400,"e":0.0,"f":100}'));
  for (const known of ['{"a":1}', '{"b":[-2.5]}', '{"c":9007199254740993.0}', '{"d":10e399}', '{"e":-0}', '{"f":1E+2}']) assert.ok(fits({knownValues: parse(known)}, numbers), known);
  for (const known of ['{"a":-1}', '{"b":[2.5]}', '{"c":9007199254740992}', '{"d":1e401}', '{"e":1}', '{"f":10}', '{"a":"1"}']) assert.ok(!fits({knownValues: parse(known)}, numbers), known);
  for (const predicate of [{dbLabel: "B:A"}, {dbLabel: "A:B:C"}, {dbLabel: "C"}, {propertyKeys: ["y"]}, {propertyKeys: ["toString"]}, {knownValues: {x: "1"}}]) assert.ok(!fits(predicate, n));
});

test("the first rule that fits says how a node looks", () => {
  const rules = [{predicate: {dbLabel: "A"}, color: "url(x)", label: {type: "Property", key: "p", prefix: "P "}}, {predicate: {}, size: 500, color: "#f00", label: {type: "Constant", value: "c"}}];
  assert.deepEqual(appearance(rules, node("1", ["A"], {p: 3})), {size: null, color: null, icon: null, caption: "P 3"});
  assert.equal(appearance(rules, node("1", ["A"], {name: "Ann"})).caption, "Ann");
  assert.deepEqual(appearance(rules, node("1")), {size: 120, color: "#f00", icon: null, caption: "c"});
  assert.deepEqual([signOf("\uf47e"), signOf("🔥"), signOf(null)], [{sign: "person"}, {text: "🔥"}, null]);
});

test("what is called as it is sought comes first", () => {
  const named = (id, caption, properties = {}) => ({...node(id, ["A"], properties), caption});
  const nodes = [named("x", "Person", {name: "Ann Lee"}), named("2", "Lee, Ann"), named("3", "Mary Ann Lee"), named("4", "Ann Lee"), named("5", "Ann")];
  assert.deepEqual(sought(nodes, " ann  LEE ").map(({id}) => id), ["4", "3", "2", "x"]);
  assert.deepEqual([sought(nodes, " ").length, sought(nodes, "a").length, sought(nodes, "nobody").length], [0, 5, 0]);
  assert.deepEqual([node("1", ["A", "B"]), node("1"), {...node("1"), gone: true}].map(kindOfNode), ["A:B", "no label", "not there at this moment"]);
});

test("an error says where in a text it is", () => {
  assert.equal(placeIn("MATCH (n)\nRETURN x", "CompileError at 2.8 Variable"), 17);
  assert.equal(placeIn("MATCH", "SyntaxError at 1.6 Unexpected end of input"), 5);
  assert.equal(placeIn("MATCH", "SyntaxError at 7.1 of another text"), undefined);
  assert.equal(placeIn("MATCH", "no place"), undefined);
});

test("quick queries of one node and of several", () => {
  const entry = (predicate, quickQuery) => ({predicate, quickQuery: {querySuffix: "RETURN n", ...quickQuery}});
  const all = [entry({}, {name: "all"}), entry({dbLabel: "A"}, {name: "a"}), entry({}, {name: "edge", edgeLabel: "x"}), entry({}, {name: "old", queryLanguage: "Gremlin"})];
  const names = nodes => offered(all, nodes).map(({quickQuery}) => quickQuery.name);
  assert.deepEqual(names([node("1", ["A"])]), ["all", "a", "edge"]);
  assert.deepEqual(names([node("1", ["A"]), node("2")]), ["all"]);
  assert.equal(inlined(about(['a"b'], "RETURN n")), 'MATCH (n) WHERE strId(n) = "a\\"b" RETURN n');
  assert.equal(inlined(about(["1", "2"], "RETURN n")), 'UNWIND ["1","2"] AS nodeId MATCH (n) WHERE strId(n) = nodeId RETURN n');
  assert.ok(neighbours("1", "A`B", false, 5).text.includes("<-[:`A``B`]-(m)"));
  assert.deepEqual(edgesAmong(["1"], ["1", "2"], 9).parameters, {nodeIds: ["1"], drawn: {1: true, 2: true}});
});

test("what the address and the shorthand ask for", () => {
  assert.equal(asked("", "#query=MATCH%20(n)%20WHERE%20n.x%3D1%20RETURN%20n").query, "MATCH (n) WHERE n.x=1 RETURN n");
  assert.equal(asked("", "#RETURN%201").query, "RETURN 1");
  assert.deepEqual(asked("?interactive=false&layout=tree&atTime=-1h&v2Api=true", "#a=b"), {query: "", interactive: false, layout: "tree", atTime: "-1h", namespace: ""});
  assert.deepEqual([observed("observe fraud-ring"), observed(" OBSERVE `a b`;"), observed("MATCH (OBSERVE) RETURN 1")], ["fraud-ring", "a b", null]);
});

test("a link that does more than read is known", () => {
  for (const text of ["LOAD CSV FROM 'http://x/' AS r RETURN r", "MATCH (n) call loadJsonLines(n.x) YIELD value RETURN value", "TERMINATE QUERY '7'", "CALL recentNodes(1) YIELD node CALL loadJsonLines('http://x/') YIELD value RETURN value",
    "CALL recentNodes.other(1)", "CALL {CALL x()}"]) assert.ok(!onlyReads(text), text);
  for (const text of ["CALL recentNodes(10)", "call  recentNodeIds (10)", "MATCH (n) WHERE n.called = 1 RETURN n", "MATCH (n:Download) RETURN n.loads"]) assert.ok(onlyReads(text), text);
});

test("what is found late comes back with a step that was taken back", () => {
  const scene = new Scene(), step = scene.add({nodes: [node("a"), node("b")]});
  scene.undo();
  scene.extend(step, {edges: [edge("a", "R", "b")]});
  assert.deepEqual([scene.nodes.size, scene.edges.size, scene.undo()], [0, 0, false]);
  assert.ok(scene.redo());
  assert.deepEqual([scene.nodes.size, scene.edges.size], [2, 1]);
});

test("steps lead back and forth", () => {
  const scene = new Scene(), state = () => [[...scene.nodes.keys()].join(""), scene.edges.size];
  const first = scene.add({nodes: [node("a"), node("b")], edges: [edge("a", "R", "b"), edge("a", "R", "nobody")]});
  scene.extend(first, {edges: [edge("b", "S", "a")]});
  assert.deepEqual(state(), ["ab", 2]);
  scene.add({nodes: [node("b", ["New"]), node("c")], edges: [edge("b", "R", "c")]});
  assert.deepEqual(scene.nodes.get("b").labels, ["New"]);
  scene.remove(["b"]);
  assert.deepEqual(state(), ["ac", 0]);
  scene.undo();
  assert.deepEqual([state()[0].length, state()[1]], [3, 3]);
  scene.undo();
  scene.undo();
  assert.deepEqual([state(), scene.undo()], [["", 0], false]);
  while (scene.redo());
  assert.deepEqual(state(), ["ac", 0]);
});

test("what has vanished can be taken back, and of another moment it is no step", () => {
  const scene = new Scene(), e = edge("a", "R", "b");
  scene.add({nodes: [{...node("a"), gone: true}, node("b")], edges: [e]});
  scene.remove([], [e.key], {remember: false});
  assert.deepEqual([scene.edges.size, scene.back.length], [0, 1]);
  scene.add({edges: [e]}, {remember: false});
  scene.remove([], [e.key]);
  scene.undo();
  assert.deepEqual([scene.edges.size, scene.back.length], [1, 1]);
  // Who is found again is there.
  scene.add({nodes: [node("a", ["A"])]});
  assert.equal(scene.nodes.get("a").gone, false);
});

test("what came by itself makes room, the oldest of it first", () => {
  const scene = new Scene(), live = from => Array.from({length: 3}, (_, i) => ({...node("l" + (from + i)), live: true}));
  scene.add({nodes: [node("asked"), ...live(0)], edges: [edge("l1", "R", "asked")]});
  scene.trim(3);
  assert.equal(scene.nodes.size, 4);
  scene.nodes.get("l0").pinned = true;
  scene.add({nodes: live(3)});
  scene.trim(4);
  assert.deepEqual([[...scene.nodes.keys()], scene.edges.size], [["asked", "l0", "l3", "l4", "l5"], 0]);
  scene.chosen = new Set(["l3"]);
  scene.trim(0);
  assert.deepEqual([...scene.nodes.keys()], ["asked", "l0", "l3"]);
  // It is no step: what is taken back is what somebody has done.
  assert.equal(scene.back.length, 2);
});

test("texts can be read on any colour", () => {
  const hex = text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16)), white = [255, 255, 255], black = [0, 0, 0];
  for (let grey = 0; grey < 256; grey++) assert.ok(contrast([grey, grey, grey], inkOn([grey, grey, grey])) >= 4.5, String(grey));
  assert.ok(Math.abs(contrast(white, black) - 21) < 0.01);
  assert.deepEqual(["#2a7fb8", "#2f8f4e", "#b8860b", "#3a8f96", "#ffff00"].map(hex).map(inkOn), Array(5).fill(black));
  assert.deepEqual(["#5f6f94", "#000080", "#c2543a"].map(hex).map(inkOn), Array(3).fill(white));
});

test("texts that were run come back, and what was being written", () => {
  const past = new Past(["one"], 2);
  past.add("two");
  past.add("one");
  assert.deepEqual(past.texts, ["one", "two"]);
  assert.deepEqual([past.older("draft"), past.older(), past.older(), past.newer(), past.newer(), past.newer()], ["one", "two", null, "one", "draft", null]);
  // What is written in the place of one that came back is not lost.
  past.older("draft");
  past.leave();
  assert.deepEqual([past.newer(), past.older("edited"), past.newer()], [null, "one", "edited"]);
  // What another page has put there stays.
  past.put(["elsewhere", 7, "one"]);
  past.add("three");
  assert.deepEqual(past.texts, ["three", "elsewhere"]);
});

test("forces end, apart and in sight; a tree has levels", () => {
  const nodes = Array.from({length: 300}, (_, i) => ({...node(String(i)), radius: 17}));
  const all = nodes.slice(1).map((b, i) => ({a: nodes[Math.floor(i / 4)], b}));
  place(nodes, all, null);
  const forces = new Forces();
  forces.warm();
  let steps = 0;
  while (forces.step(nodes, all)) steps++;
  assert.ok(steps < 400, String(steps));
  let least = Infinity;
  for (const a of nodes) for (const b of nodes) if (a !== b) least = Math.min(least, Math.hypot(a.x - b.x, a.y - b.y));
  const {left, right} = bounds(nodes);
  assert.ok(least > 10 && right - left < 6000, `${least} ${right - left}`);
  tree(nodes, all);
  assert.ok(all.every(({a, b}) => b.y > a.y));
  // Children that point to their parents stand below them, and who points to one that has its place stands beside its children.
  tree(nodes, all.map(({a, b}) => ({a: b, b: a})));
  assert.ok(all.every(({a, b}) => b.y > a.y));
  const [top, one, two, other, below] = nodes;
  tree([top, one, two, other, below], [{a: top, b: one}, {a: top, b: two}, {a: two, b: below}, {a: other, b: two}]);
  assert.deepEqual([one, two, other, below].map(({y}) => y - top.y), [120, 120, 240, 240]);
  // A ring has no root, and all at one place no direction: neither may hang.
  const ring = nodes.slice(0, 3).map(n => Object.assign(n, {x: 0, y: 0}));
  tree(ring, [{a: ring[0], b: ring[1]}, {a: ring[1], b: ring[2]}, {a: ring[2], b: ring[0]}]);
  ring.forEach(n => Object.assign(n, {x: 5, y: 5}));
  forces.warm();
  forces.step(ring, []);
  assert.ok(ring.every(n => Number.isFinite(n.x)) && ring[0].x !== ring[1].x);
});

test("a picture holds texts as texts", () => {
  const scene = new Scene(), theme = Object.fromEntries(["paper", "ink", "soft", "edge", "accent", "halo", "marked", "node", "sign", "synthetic"].map(name => [name, "#123"]));
  scene.add({nodes: ["a", "b"].map((id, i) => ({...node(id), x: i * 100, y: 0, radius: 17, caption: '<script>&"\u0000', sign: signOf("\uf47e")})), edges: [edge("a", "<R>", "b"), edge("b", "S", "a"), edge("a", "T", "a")]});
  const all = links(scene), pen = new SvgPen();
  assert.notEqual(course(all[0]).textY, course(all[1]).textY);
  draw(pen, {nodes: [...scene.nodes.values()], edges: all, theme});
  const svg = pen.document(bounds([...scene.nodes.values()]), "#fff");
  assert.ok(svg.includes("&lt;script&gt;&amp;&quot;<") && svg.includes("&lt;R&gt;") && !svg.includes("<script>") && !/NaN|undefined|\u0000/.test(svg), svg);
  assert.equal(cut("abc", 2), "a…");
  // What is not there is hollow; from far away lines can still be seen.
  assert.ok(!svg.includes("stroke-dasharray"));
  scene.nodes.get("a").gone = true;
  const far = new SvgPen();
  draw(far, {nodes: [...scene.nodes.values()], edges: all, theme, scale: 0.125});
  assert.equal(far.parts.filter(part => part.includes('stroke-dasharray="4 3"')).length, 1);
  assert.equal(far.parts.filter(part => part.includes('stroke-width="4.8"')).length, 3);
});
