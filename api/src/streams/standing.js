// The table of standing queries, and what is told of one: results, outputs, plan, latency, why not, configuration.

import {at, button, copy, count, make, say} from "../explorer/dom.js";
import {write} from "../explorer/values.js";
import {changedOutput, newOutput, newStanding} from "./create.js";
import {another, definitionOf} from "./definitions.js";
import {millis, perSecond, seconds, short} from "./figures.js";
import {full, modeOf, outputKey, outputsOf, outputStateOf, queryKey, queryState} from "./flow.js";
import {latencyTab} from "./latency.js";
import {asking, block, chip, doing, facts, finding, put, Rows, sparkline, spot, tabs, turning, unfolding} from "./parts.js";
import {planPicture} from "./plan.js";
import {resultsTab} from "./results.js";
import {addOutput, changeOutput, createStanding, deleteStanding, isPlain, pauseStanding, plan, planText, removeOutput, resumeStanding} from "./server.js";
import {whyNotTab} from "./whynot.js";

const counts = query => query.stats.local || {};

// `acts`: look() looks at once, rate(key) and course(key) are of the meter.
export function standingTable(acts) {
  const rows = new Rows(at("query-rows"), query => row(query, acts), at("new-query"));
  const create = initial => newStanding(async body => { const made = await createStanding(body); acts.look(); say(`The ${full("query", body.name)} is there.`); return made; }, initial);
  acts.copyStanding = create;
  at("new-query").addEventListener("click", () => create());
  let all = [];
  const found = finding(at("find-query"), query => [query.name, text(query), modeOf(query.pattern), ...query.outputs.map(({name}) => name)].join(" "), () => rows.update(found.of(all)));
  return {
    open(name, tab) {
      if (!rows.get(name)) found.all();
      const one = rows.get(name);
      one?.open();
      if (tab) one?.details().show(tab);
    },
    update(queries, pressures) {
      const queues = new Map(pressures.map(one => [one.name, one.queue]));
      all = queries.map(query => ({...query, queue: queues.get(query.name)}));
      rows.update(found.of(all));
      put(at("query-count"), queries.length ? String(queries.length) : "");
      at("query-table").hidden = !queries.length;
      at("no-query").hidden = queries.length > 0;
    },
  };
}

const text = ({pattern}) => typeof pattern.query === "string" ? pattern.query.trim() : write(pattern);

function row({name}, acts) {
  const state = spot(), mode = spot(), query = make("code"), results = spot(), rate = spot(), latency = spot(), outputs = spot("outputs"), line = sparkline();
  const turn = turning(name, pauseStanding, resumeStanding, acts.look);
  const remove = asking("Delete", `Delete ${name}?`, async () => { await deleteStanding(name); await acts.look(); say(`The ${full("query", name)} is gone.`); }, {ariaLabel: "Delete " + name});
  const cells = [["", state], ["mode", mode], ["query", query], ["number", results], ["number rate", make("span", {}, line.element, rate)], ["number latency", latency], ["outputs", outputs], ["acts", make("span", {}, turn.element, remove)]]
    .map(([className, content]) => make("td", {className}, content));
  const one = unfolding({name, cells, details: () => details(name, acts)});
  return {...one, update(told) {
    const stats = counts(told), [kind, why] = queryState(stats, told.queue, seconds), key = queryKey(name), whole = stats.latency?.whole;
    chip(state, kind, kind === "paused" ? `paused, ${short(stats.paused.heldBack)} held` : kind === "constrained" && stats.backfill ? why.replace("looks through the graph: ", "looks through ") : undefined, why);
    put(mode, modeOf(told.pattern));
    put(query, text(told).replace(/\s+/g, " "));
    query.title = text(told);
    put(results, short(stats.rates?.count));
    put(rate, perSecond(acts.rate(key)));
    line.update(acts.course(key));
    put(latency, whole ? `${millis(whole.p50Millis)} / ${millis(whole.p99Millis)}` : "–");
    chips(outputs, told);
    turn.update(Boolean(stats.paused), !stats.failed);
    one.update(told);
  }};
}

// The outputs of a query, each as its name in the colour of its state.
function chips(place, query) {
  const all = outputsOf(query);
  while (place.childElementCount > Math.max(1, all.length)) place.lastChild.remove();
  if (!all.length) { if (place.textContent !== "none") place.replaceChildren(make("span", {className: "soft"}, "none")); return; }
  if (place.firstElementChild?.className === "soft") place.replaceChildren();
  all.forEach(({workflow, destinations}, i) => {
    if (!place.children[i]) place.append(spot());
    const [state, why] = outputStateOf(destinations, seconds);
    chip(place.children[i], state, workflow.name + (state === "flowing" ? "" : " !"), state + (why ? ": " + why : ""));
  });
}

function details(name, acts) {
  const notes = make("div", {className: "notes"}), all = tabs("What is told of " + name, [["Results", () => resultsTab(name)], ["Outputs", () => outputsTab(name, acts)], ["Plan", () => planTab(name)],
    ["Latency", () => latencyTab(name)], ["Why not", () => whyNotTab(name)], ["Configuration", () => configurationTab(acts)]]);
  return {
    element: make("div", {className: "told"}, notes, all.element), show: all.show, opened: all.opened, closed: all.closed,
    update(query) {
      const {failed, leftOut, behind, backfill, replacement, paused} = counts(query), told = [];
      if (failed) told.push(["wrong", `It has ended: ${failed}`]);
      if (paused) told.push(["", `Paused since ${new Date(paused.since).toLocaleString()}; its end brings ${count(paused.heldBack, "result")}.`]);
      if (backfill) told.push(["", `Looks through the graph: ${backfill.nodesLookedAt.toLocaleString("en")} of ${backfill.nodes.toLocaleString("en")} nodes.`]);
      if (replacement) told.push(["", `Is being replaced; the other one has looked at ${replacement.nodesLookedAt.toLocaleString("en")} of ${replacement.nodes.toLocaleString("en")} nodes.`]);
      if (behind) told.push(["", `Behind by ${behind.by}: ${behind.changesWaiting.toLocaleString("en")} changes of the graph wait for it.`]);
      if (leftOut) told.push(["wrong", `Rows were left out ${leftOut.rows.toLocaleString("en")} times. One of the last: ${leftOut.last}${leftOut.expression ? `, in ${leftOut.expression}` : ""}`]);
      const key = write(told);
      if (notes.dataset.shown !== key) { notes.dataset.shown = key; notes.replaceChildren(...told.map(([kind, text]) => make("p", {className: "problem" + (kind ? "" : " mild")}, text))); }
      all.update(query);
    },
  };
}

function outputsTab(name, acts) {
  const list = make("div", {className: "output-list"}), none = make("p", {className: "soft"}, "It has no output: its results can be seen here, and go nowhere."), add = button("Add an output", () => newOutput(name, async body => { await addOutput(name, body); acts.look(); say(`The ${full("output", body.name)} is there.`); }));
  const rows = new Rows(list, ({name: output}) => outputCard(name, output, acts), add);
  return {element: make("div", {}, none, list, make("div", {className: "buttons"}, add)), update(query) {
    const all = outputsOf(query);
    none.hidden = all.length > 0;
    rows.update(all.map(({workflow, destinations}) => ({name: workflow.name, workflow, destinations})));
  }};
}

function outputCard(query, name, acts) {
  const state = spot(), settings = block("Definition of " + name), places = make("div"), rate = spot("soft");
  const parts = new Rows(places, () => destination());
  let last = null;
  const change = button("Change", () => changedOutput(query, last, async body => { await changeOutput(query, name, body); acts.look(); say(`The ${full("output", name)} is changed.`); }), {ariaLabel: "Change " + name, ariaHasPopup: "dialog", hidden: !isPlain(query, name)});
  const remove = asking("Remove", `Remove ${name}?`, async () => { await removeOutput(query, name); await acts.look(); say(`The ${full("output", name)} is gone.`); }, {ariaLabel: "Remove " + name});
  const element = make("article", {className: "output"}, make("header", {}, make("b", {}, name), state, rate, make("span", {className: "gap"}), change, remove), places, make("details", {}, make("summary", {}, "Definition"), settings.element));
  return {elements: [element], update({workflow, destinations}) {
    last = workflow;
    const [whole, why] = outputStateOf(destinations, seconds);
    chip(state, whole, undefined, why);
    put(rate, perSecond(acts.rate(outputKey(query, name))));
    settings.put(write(workflow, "  "));
    parts.update(destinations.map((one, i) => ({...one, kind: workflow.destinations[i]?.type || ""})));
  }};
}

function destination() {
  const told = facts([["kind", "to"], ["delivered", "delivered"], ["waiting", "waiting"], ["lag", "lag"], ["failed", "given up"], ["deadLetters", "dead letters"], ["dropped", "dropped"], ["retries", "tries again"], ["next", "next try"], ["loops", "loops cut"]]);
  const wrong = make("p", {className: "problem"}), last = make("p", {className: "problem mild"});
  return {elements: [make("div", {}, told.element, wrong, last)], update(one) {
    const some = number => number ? number.toLocaleString("en") : undefined;
    told.update({kind: one.kind, delivered: one.delivered.toLocaleString("en"), waiting: one.waiting.toLocaleString("en"), lag: one.waiting ? one.lag : undefined, failed: some(one.failed), deadLetters: some(one.deadLetters), dropped: some(one.dropped), retries: some(one.retries), next: one.nextTry && new Date(one.nextTry).toLocaleTimeString("en", {hour12: false}) + ` (try ${one.tries})`, loops: some(one.loops)});
    wrong.hidden = !one.reason;
    put(wrong, one.reason || "");
    last.hidden = !one.lastError;
    put(last, one.lastError ? `${one.lastError.message} (${new Date(one.lastError.at).toLocaleString()})` : "");
  }};
}

// Asked for once, and again when the query has been replaced, or when it is come back to and has not been told.
function planTab(name) {
  const place = make("div", {className: "plan scroll", tabIndex: 0, role: "region", ariaLabel: "The dataflow of " + name});
  const copying = (label, format) => { const one = button(label, () => doing(one, async () => copy(await planText(name, format)))); return one; };
  let shown = null, failed = false;
  const load = async () => {
    failed = false;
    try { place.replaceChildren(planPicture(await plan(name))); } catch (error) { failed = true; place.replaceChildren(make("p", {className: "problem"}, error.message)); }
  };
  return {element: make("div", {}, make("p", {className: "soft"}, "From the results, on top, down to the changes of the graph that begin them."), place, make("div", {className: "buttons"}, copying("Copy as text", "text"), copying("Copy as Mermaid", "mermaid"))),
    opened() { if (failed) load(); },
    update(query) { const of = write(query.pattern); if (of !== shown) { shown = of; load(); } }};
}

function configurationTab(acts) {
  const settings = block("Configuration", "tall");
  let last = null;
  const again = button("Make another like it", () => acts.copyStanding(another(definitionOf(last))));
  return {element: make("div", {}, settings.element, make("div", {className: "buttons"}, again)), update(query) { last = query; settings.put(write(definitionOf(query), "  ")); }};
}
