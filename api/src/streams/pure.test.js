// Tests of the modules that know no page: `node --test` in this folder. They are not served.

import assert from "node:assert/strict";
import {test} from "node:test";

import {parse, write} from "../explorer/values.js";
import {another, definitionOf, leftOut, masksIn} from "./definitions.js";
import {bytes, duration, histograms, Meter, millis, Missed, perSecond, seconds, short} from "./figures.js";
import {bottleneck, flowOf, outputKey, outputsOf, outputState, outputStateOf, queryState, streamKey, streamState, worst} from "./flow.js";
import {broken, drawing, planDrawing, SHOWN_MAX, summed, thickness} from "./layout.js";
import {fieldIn} from "./mistakes.js";
import {kindsOf, optionOf, ordered, shapeOf, words} from "./schema.js";

// What asks the server does so from the page's address.
globalThis.location = {pathname: "/weir/streams"};
const {Following, graphInFigures, graphNamed, graphPath, ofGraph, query, scope} = await import("../explorer/query.js");
const server = await import("./server.js");

// What is asked by `act` of a server that answers with `answer`: methods and paths.
async function asked(act, answer = "{}") {
  const all = [];
  globalThis.fetch = async (path, {method = "GET"} = {}) => { all.push(`${method} ${path}`); return new Response(answer); };
  try { await act(); } finally { delete globalThis.fetch; }
  return all;
}

test("rates are those of the last seconds, and begin anew where a count falls", () => {
  const meter = new Meter();
  meter.add("a", 100, 0);
  assert.equal(meter.rate("a"), null);
  assert.equal(meter.rate("nobody"), null);
  meter.add("a", 300, 2000);
  assert.equal(meter.rate("a"), 100);
  for (let at = 4000; at <= 60000; at += 2000) meter.add("a", 300, at);
  assert.equal(meter.rate("a"), 0, "what came a minute ago is no rate of now");
  assert.deepEqual(meter.course("a").slice(0, 2), [100, 0]);
  meter.add("a", 5, 62000);
  assert.equal(meter.rate("a"), null);
  meter.keep(new Set());
  assert.deepEqual(meter.course("a"), []);
});

test("what does not come is what the server has found more", () => {
  const missed = new Missed();
  assert.deepEqual([missed.count(1000, 40), missed.count(1100, 140), missed.count(5100, 640), missed.count(5100, 700)], [0, 0, 3500, 3440]);
  assert.equal(missed.count(5100, 9000), 0, "what has come before it was counted");
  assert.deepEqual([missed.count(3, 9000), missed.count(13, 9004)], [0, 6], "the server has begun anew");
});

test("numbers are short, durations have two units", () => {
  assert.deepEqual([0, 0.44, 12.4, 1234, 9999.4, 56712, 999960, 1.25e6, 3e9].map(short), ["0", "0.4", "12", "1,234", "9,999", "56.7k", "1M", "1.3M", "3G"]);
  assert.deepEqual([null, undefined].map(perSecond), ["–", "–"]);
  assert.deepEqual([0, 999, 1234, 5.6e7].map(bytes), ["0 B", "999 B", "1.2 kB", "56 MB"]);
  assert.deepEqual([0.123, 4.25, 250, 7800, null].map(millis), ["0.12 ms", "4.3 ms", "250 ms", "7.8 s", "–"]);
  assert.deepEqual([0, 3, 61, 3600, 90061].map(duration), ["0 s", "3 s", "1 min 1 s", "1 h", "1 d 1 h"]);
  assert.deepEqual(["1m30s", "2ms", "1.5s", "2d1h", "x"].map(seconds), [90, 0.002, 1.5, 176400, null]);
});

test("histograms are read from what Prometheus reads", () => {
  const text = 'x_bucket{query="a \\"b\\"",stage="whole",le="0.001"} 2\nx_bucket{query="a \\"b\\"",stage="whole",le="+Inf"} 5\nx_bucket{query="c",stage="whole",le="+Inf"} 9\nx_sum{query="c"} 1\n';
  assert.deepEqual(histograms(text, "x", {query: 'a "b"'}, "stage").get("whole"), [{from: 0, to: 1, count: 2}, {from: 1, to: Infinity, count: 3}]);
});

test("an error says in which field it is", () => {
  assert.equal(fieldIn("Invalid value for: body (DecodingFailure at .source.format: Missing required field)"), "source.format");
  assert.equal(fieldIn("DecodingFailure at .outputs[0].name: x"), "outputs.0.name");
  assert.equal(fieldIn("body (DecodingFailure at .url: x (in .source))"), "source.url");
  assert.equal(fieldIn("DecodingFailure at .path: x (in .outputs[0].destinations[1])"), "outputs.0.destinations.1.path");
  assert.equal(fieldIn("DecodingFailure at : Missing type (in .source)"), "source");
  assert.equal(fieldIn("body (DecodingFailure at .query: x, DecodingFailure at .url: y (in .source))"), "query");
  assert.equal(fieldIn("'x y' is no name"), undefined);
});

const output = given => ({state: "RUNNING", waiting: 0, lag: "0s", holdsIngest: false, ...given});

test("how streams, queries and outputs are", () => {
  const state = (...given) => streamState(...given)[0];
  assert.equal(state({status: "RUNNING"}, {stages: {source: "FLOWING"}}, 1), "flowing");
  assert.equal(state({status: "RUNNING"}, {stages: {source: "BACKPRESSURED"}}, 1), "backpressured");
  assert.equal(state({status: "RUNNING"}, {rateLimit: 100}, 97), "constrained");
  assert.equal(state({status: "RUNNING", message: "refused"}), "constrained");
  assert.deepEqual(["PAUSED", "RESTORED", "COMPLETED", "TERMINATED", "FAILED"].map(status => state({status})), ["paused", "paused", "stopped", "stopped", "failed"]);
  const query = (stats, queue) => queryState(stats, queue, seconds)[0];
  assert.equal(query({}, {thresholdRatio: 0.1}), "flowing");
  assert.deepEqual([0.4, 1].map(thresholdRatio => query({}, {thresholdRatio, bufferCount: 1})), ["constrained", "backpressured"]);
  assert.equal(query({paused: {heldBack: 3}}), "paused");
  assert.equal(query({failed: "cost too much"}), "failed");
  assert.match(queryState({backfill: {nodesLookedAt: 1, nodes: 3}}, undefined, seconds)[1], /33 %/);
  const out = given => outputState(output(given), seconds)[0];
  assert.deepEqual([{}, {state: "PARKED"}, {state: "RETRYING"}, {holdsIngest: true}, {waiting: 1, lag: "5ms"}, {waiting: 1, lag: "1m"}].map(out), ["flowing", "failed", "constrained", "backpressured", "flowing", "constrained"]);
  assert.deepEqual([["flowing", "failed"], ["paused", "stopped"], ["stopped"], ["paused", "constrained"], []].map(worst), ["failed", "paused", "stopped", "constrained", "flowing"]);
});

const stream = (name, status = "RUNNING") => ({name, status, settings: {source: {type: "NumberIterator"}}, stats: {}});
const standing = (name, outputs) => ({name, pattern: {mode: "ANY_QUERY"}, outputs: Object.keys(outputs).map(name => ({name, destinations: [{type: "File"}]})), stats: {local: {outputs}}});
// The valve is shut, by this graph or another one.
const pressure = held => ({globalValve: {isOpen: false}, ingests: held.map(name => ({name, stages: {source: "BACKPRESSURED"}})), standingQueries: []});
const flow = (ingests, queries, held = []) => flowOf({ingests, queries, pressure: pressure(held)}, () => 10, seconds);

test("the bottleneck is what holds up the most", () => {
  assert.equal(flow([stream("a")], [standing("q", {out: output()})]).bottleneck, null);
  const held = flow([stream("a")], [standing("q", {slow: output({state: "RETRYING"}), full: output({holdsIngest: true})})], ["a"]);
  assert.deepEqual(held.bottleneck, {key: "output/q/full", text: "The output “full” of “q” holds up the stream “a”."});
  assert.equal(held.graph.state, "backpressured");
  assert.equal(flow([stream("a")], []).graph.state, "flowing", "another graph is held up");
  assert.match(flow([], [standing("q", {gone: output({state: "FAILED"})})]).bottleneck.text, /“gone” of “q” has ended/);
  assert.match(flow([], [standing("q", {slow: output({state: "RETRYING", waiting: 3, lastError: {message: "refused", at: ""}})})]).bottleneck.text, /delays its own results: tried again; 3 results wait; refused/);
  assert.equal(bottleneck([], [], []), null);
});

test("the destinations of a workflow are one output", () => {
  const query = standing("q", {hook: output(), "hook#2": output({state: "FAILED"}), hooks: output()});
  query.outputs = query.outputs.filter(({name}) => name !== "hook#2");
  assert.deepEqual(outputsOf(query).map(({destinations}) => destinations.map(({name}) => name)), [["hook", "hook#2"], ["hooks"]]);
  assert.equal(flow([], [query]).outputs[0].state, "failed");
  assert.deepEqual(outputStateOf([output(), output({state: "PARKED", reason: "refused"}), output({holdsIngest: true})], seconds), ["failed", "refused"]);
  assert.deepEqual(outputStateOf([], seconds), ["flowing", ""]);
});

test("many of a kind are summed up, and all of it lies within the picture", () => {
  const many = Array.from({length: 20}, (_, i) => stream("s" + i, i === 15 ? "FAILED" : i < 3 ? "PAUSED" : "RUNNING"));
  const drawn = drawing(flow(many, [standing("q", {a: output(), b: output()})]));
  const streams = drawn.boxes.filter(({key}) => key.startsWith("ingest"));
  assert.equal(streams.length, SHOWN_MAX);
  assert.ok(streams.some(({name}) => name === "s15"), "what has failed is not hidden");
  assert.equal(streams.at(-1).name, "13 more");
  assert.equal(streams.at(-1).rate, 100, "those that rest bring nothing");
  assert.equal(drawn.lines.length, SHOWN_MAX + 1 + 2);
  // Names that look like the rest, or like two names.
  const odd = summed([..."…abcdefghi"].map(name => ({key: streamKey(name), name, state: "flowing", rate: name === "…" ? 9 : 1})), "ingest");
  assert.equal(new Set(odd.map(({key}) => key)).size, SHOWN_MAX);
  assert.notEqual(outputKey("a", "b/c"), outputKey("a/b", "c"));
  for (const {x, y, width, height} of drawn.boxes) assert.ok(x >= 0 && y >= 0 && x + width <= drawn.width && y + height <= drawn.height);
  assert.ok(thickness(1000) > thickness(10) && thickness(10) > thickness(0) && thickness(1e9) < 12);
  assert.equal(summed(streams.slice(0, 3), "ingest").length, 3);
});

test("a plan is drawn without boxes that overlap", () => {
  const part = (title, ...inputs) => ({title, details: ["a detail that is so long that it has to be broken into lines"], inputs});
  const {boxes, lines, width, height} = planDrawing(part("Results", part("Join", part("Changes of (a:A)"), part("Union", part("x"), part("y"))), part("z")));
  assert.deepEqual([boxes.length, lines.length, boxes[0].title[0]], [7, 6, "Results"]);
  for (const a of boxes) {
    assert.ok(a.x >= 0 && a.x + a.width <= width && a.y + a.height <= height);
    for (const b of boxes) assert.ok(a === b || a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y, `${a.title} and ${b.title}`);
  }
  assert.deepEqual(broken("one two  three", 7), ["one two", "three"]);
  assert.deepEqual(broken("abcdefghij", 4), ["abcd", "efgh", "ij"]);
  assert.deepEqual(broken("Changes of (n:Number)-[:TENTH]->(m)", 24), ["Changes of (n:Number)", "-[:TENTH]->(m)"]);
});

const schemas = {
  Body: {type: "object", required: ["name", "source"], properties: {limit: {type: ["integer", "null"], minimum: 0}, name: {type: "string", description: "Its `name`."}, source: {$ref: "#/components/schemas/Source"},
    secret: {anyOf: [{oneOf: [{type: "string", format: "password"}, {$ref: "#/components/schemas/Env"}]}, {type: "null"}]}, headers: {type: "object", additionalProperties: {type: "string"}}, mode: {anyOf: [{$ref: "#/components/schemas/Mode"}, {type: "null"}], default: "A"}}},
  Source: {oneOf: [{$ref: "#/components/schemas/File"}, {$ref: "#/components/schemas/Chain"}], discriminator: {propertyName: "type"}},
  File: {type: "object", description: "A file.\n\nMore of it.", required: ["type", "path"], properties: {type: {type: "string", const: "File"}, path: {type: "string"}}, examples: [{type: "File", path: "x.json"}]},
  Chain: {type: "object", required: ["type"], properties: {type: {type: "string", const: "Chain"}, then: {$ref: "#/components/schemas/Source"}, all: {type: "array", items: {type: "integer"}}}},
  Env: {type: "object", required: ["env"], properties: {env: {type: "string"}}}, Mode: {type: "string", enum: ["A", "B"]},
};

test("what a form has no place for is named", () => {
  const given = parse('{"name":"a","quer":"x","source":{"limit":9007199254740993,"offset":1.0,"old":null,"on":false},"outputs":[{"to":[1]}]}');
  assert.deepEqual(leftOut(given, {name: "a", source: {limit: 1}, outputs: [{}]}), ["quer", "source.offset", "outputs.0.to.0"]);
  assert.deepEqual(leftOut(given, given), []);
  assert.deepEqual(leftOut(5, undefined), ["5"]);
});

test("another one begins with all of it, masks in the place of secrets too", () => {
  const text = '{"name":"a","source":{"type":"Kafka","offset":9007199254740993,"password":"Secret(****)","headers":{"X":"Secret(****)"},"topics":["t"],"keys":["Secret(****)"],"limit":null}}';
  assert.equal(write(another(parse(text))), text.replace('"a"', '"a-2"'));
  assert.deepEqual(Object.keys(definitionOf({name: "q", pattern: {}, outputs: [], stats: {}, internalId: "x", includeCancellations: true})), ["name", "pattern", "outputs", "includeCancellations"]);
});

test("masks of secrets are found, and nothing else", () => {
  const given = parse('{"a":"Secret(****)","b":[{"url":"http://u:****@h/x"},{"url":"https://h/?page=****&x=1#****"}],"c":"**** and http://h/?a=****b","d":null,"e":"http://h/****?a=1","f":1.0,"g":"?a=****"}');
  assert.deepEqual(masksIn(given), ["a", "b.0.url", "b.1.url"]);
  assert.deepEqual([masksIn(undefined), masksIn("Secret(****)")], [[], [""]]);
});

test("the graph has one name for each who is asked", () => {
  assert.deepEqual(["", "Quine", "default", "Other"].map(graphNamed), ["default", "default", "default", "other"]);
  const names = () => [graphPath(), ofGraph(), graphInFigures()];
  assert.deepEqual(names(), ["api/v2/graph/default/", "", "quine"]);
  scope.namespace = "other";
  assert.deepEqual(names(), ["api/v2/graph/other/", "?namespace=other", "other"]);
  scope.namespace = "default";
});

test("what is asked for is what is meant, whatever its name", async () => {
  const root = "/weir/api/v2/graph/default/standingQueries/";
  assert.deepEqual(await asked(() => server.removeOutput("q", "o")), [`DELETE ${root}q/outputs/o`]);
  assert.deepEqual(await asked(() => server.removeOutput("q", "a/..")), ["DELETE /weir/api/v1/query/standing/q/output/a%2F..?namespace=default"]);
  assert.deepEqual(await asked(() => server.changeOutput("q", "o", {})), [`PUT ${root}q/outputs/o`]);
  assert.deepEqual(await asked(() => server.pauseStanding("..")), [`POST ${root}..:pause`]);
  // A browser would take these for steps of the path, and remove the query for its output.
  for (const act of [() => server.removeOutput("q", ".."), () => server.removeOutput("a b", ".."), () => server.changeOutput("q", ".", {}), () => server.deleteIngest(".."), () => server.plan("."),
    () => server.createIngest({name: ".."}), () => server.createStanding({name: "q", outputs: [{name: "."}]}), () => server.addOutput("q", {name: ".."})])
    assert.deepEqual(await asked(() => assert.rejects(async () => act(), /A browser cannot ask for what is named “\.\.?”/)), [], String(act));
});

test("a page that stands in the place of an answer is told as one", async () => {
  globalThis.fetch = async () => new Response("<!doctype html>", {headers: {"Content-Type": "text/html; charset=UTF-8"}});
  try { await assert.rejects(query("RETURN 1"), /something other than weir: sign in again/); } finally { delete globalThis.fetch; }
});

// Streams of results as a browser has them, which the test opens, feeds and ends.
class Events {
  static CLOSED = 2;
  static all = [];
  readyState = 0;
  #heard = {};
  constructor(path) { this.path = path; Events.all.push(this); }
  addEventListener(name, act) { this.#heard[name] = act; }
  send(name, lastEventId) { this.#heard[name]({type: name, lastEventId, data: "{}"}); }
  close() { this.readyState = Events.CLOSED; }
  refuse() { this.close(); this.onerror(); }
}

// What is told while `act` is under way; `reply` is what a plain request is answered.
async function followed(act) {
  const told = [], server = {reply: () => new Response("", {status: 503})}, {setTimeout, clearTimeout} = globalThis;
  let due = null;
  // What waits is called when the test says so.
  const pass = millis => { if (!due || (due.millis -= millis) > 0) return; const {act} = due; due = null; act(); };
  Object.assign(globalThis, {EventSource: Events, document: {hidden: false}, fetch: async path => server.reply(path), setTimeout: (act, millis) => { due = {act, millis}; return due; }, clearTimeout: id => { if (id === due) due = null; }});
  Events.all = [];
  const one = new Following("q", {take: ({lastEventId}) => told.push(lastEventId), opens: () => told.push("open"), waits: text => told.push(text), missed: text => told.push(text), ended: text => told.push(text)});
  const stream = () => Events.all.at(-1), settle = async () => { for (let i = 0; i < 50; i++) await Promise.resolve(); await new Promise(setImmediate); };
  const refuse = async reply => { server.reply = reply; stream().refuse(); await settle(); };
  try { await act({one, told, stream, refuse, pass}); } finally {
    one.stop();
    Object.assign(globalThis, {setTimeout, clearTimeout});
    for (const name of ["EventSource", "document", "fetch"]) delete globalThis[name];
  }
}

const listed = (...names) => path => path.includes("/results") ? new Response("none", {status: 400}) : Response.json(names.map(name => ({name})));

test("results go on behind what came last, however long weir was away", () => followed(async ({one, told, stream, refuse, pass}) => {
  one.start();
  assert.ok(stream().path.endsWith("/standing/q/results?namespace=default"), stream().path);
  stream().send("message", "5-0");
  stream().send("result", "7-1");
  for (let i = 0; i < 3; i++) {
    const before = Events.all.length;
    await refuse(() => new Response("<html>", {status: 502, statusText: "Bad Gateway"}));
    assert.match(told.at(-1), /502 Bad Gateway/);
    pass(2999);
    assert.equal(Events.all.length, before, "not at once");
    pass(1);
    assert.ok(stream().path.endsWith("&since=7-1"), stream().path);
  }
  // Seen again, it goes on from there, too.
  document.hidden = true;
  one.turn();
  assert.equal(stream().readyState, Events.CLOSED);
  document.hidden = false;
  one.turn();
  assert.ok(stream().path.endsWith("&since=7-1"), stream().path);
  // What is not weir's list says nothing about the query; nor does one that has it.
  for (const reply of [() => new Response("404 page not found", {status: 404}), () => new Response("<html>", {headers: {"Content-Type": "text/html"}}), listed("other", "q"), () => { throw new TypeError("refused"); }]) {
    await refuse(reply);
    pass(3000);
    assert.ok(stream().path.endsWith("&since=7-1") && !stream().readyState, told.at(-1));
  }
}));

test("results end where there is no such query, and have a gap where weir says so", async () => {
  await followed(async ({one, told, stream, refuse, pass}) => {
    one.start();
    stream().send("result", "7-1");
    await refuse(listed("other"));
    assert.match(told.at(-1), /no such query any more/);
    pass(60000);
    assert.equal(Events.all.length, 1);
  });
  await followed(async ({one, told, stream, refuse, pass}) => {
    one.start();
    stream().send("result", "7-1");
    await refuse(() => Response.json({errors: [{message: "gone"}]}, {status: 410}));
    assert.match(told.at(-1), /not kept any more/);
    pass(0);
    assert.ok(Events.all.length === 2 && !stream().path.includes("since"), stream().path);
    stream().send("cancellation", "9-0");
    stream().send("gap", "");
    assert.match(told.at(-1), /faster than they could be taken/);
    pass(2000);
    assert.ok(Events.all.length === 3 && !stream().path.includes("since"), stream().path);
  });
  // Who has ended it meanwhile hears nothing more.
  await followed(async ({one, told, refuse}) => {
    one.start();
    const asked = refuse(listed());
    one.stop();
    const before = told.length;
    await asked;
    assert.equal(told.length, before);
  });
});

test("figures are asked for once between a look and the next", async () => {
  const seen = JSON.stringify([{ingests: [], standingQueries: []}]);
  const look = () => server.look().catch(() => {}), several = () => Promise.all([server.metrics(), server.metrics(), server.metrics()]);
  const all = await asked(async () => { await look(); await several(); await several(); await look(); await several(); }, seen);
  assert.equal(all.filter(path => path === "GET /weir/metrics").length, 2);
});

test("forms follow from schemas", () => {
  const body = shapeOf({components: {schemas}}, {$ref: "#/components/schemas/Body"}), field = name => body.fields.find(field => field.name === name).shape();
  const {visible, more} = ordered(body.fields, {first: ["name", "source", "mode"]});
  assert.deepEqual([visible.map(({name}) => name), more.map(({name}) => name)], [["name", "source", "mode"], ["limit", "secret", "headers"]]);
  assert.deepEqual([field("limit").kind, field("headers").kind, field("headers").item().kind], ["number", "map", "text"]);
  assert.deepEqual([field("mode").kind, field("mode").default, field("mode").values], ["choice", "A", ["A", "B"]]);
  const source = field("source"), secret = field("secret");
  assert.deepEqual(kindsOf(source), [{name: "File", description: "A file."}, {name: "Chain", description: ""}]);
  assert.equal(source.options[0].shape().example.path, "x.json");
  const chain = optionOf(source, {type: "Chain"}).shape();
  assert.deepEqual(chain.fields.map(({shape}) => shape().kind), ["const", "union", "list"], "what holds itself is made as far as it is asked for");
  assert.equal(optionOf(source, {type: "Nope"}), undefined);
  assert.deepEqual(secret.options.map(({name}) => name), ["value", "env"]);
  assert.deepEqual([{env: "X"}, "hush", undefined].map(value => optionOf(secret, value)?.name), ["env", "value", undefined]);
  assert.deepEqual(["startOffset", "sslKeyPassword", "awsURL", "S3"].map(words), ["start offset", "ssl key password", "aws URL", "S3"]);
});
