// The page of streams and standing queries: looks at the server every other second, and hands what it sees to picture and tables.

import {at, say} from "../explorer/dom.js";
import {graphNamed, lookAt, offerGraphs, ofGraph, sameScope} from "../explorer/query.js";
import {Meter, seconds} from "./figures.js";
import {flowOf, outputKey, outputsOf, queryKey, streamKey} from "./flow.js";
import {ingestTable} from "./ingests.js";
import {put} from "./parts.js";
import * as picture from "./picture.js";
import {look} from "./server.js";
import {standingTable} from "./standing.js";

const LOOK_MILLIS = 2000, LOOK_MILLIS_MAX = 10000;

const meter = new Meter();
// What the tables may do, and ask.
const acts = {look: lookNow, rate: key => meter.rate(key), course: key => meter.course(key)};
const ingests = ingestTable(acts), queries = standingTable(acts);

function measure({ingests, queries}) {
  const now = performance.now(), keys = new Set(), add = (key, count) => { keys.add(key); meter.add(key, count, now); };
  for (const {name, stats} of ingests) add(streamKey(name), stats.ingestedCount);
  for (const query of queries) {
    add(queryKey(query.name), query.stats.local?.rates?.count || 0);
    for (const {workflow, destinations} of outputsOf(query)) add(outputKey(query.name, workflow.name), Math.max(0, ...destinations.map(({delivered}) => delivered)));
  }
  meter.keep(keys);
}

function show(seen) {
  measure(seen);
  ingests.update(seen.ingests, seen.pressure.ingests);
  queries.update(seen.queries, seen.pressure.standingQueries);
  picture.show(flowOf(seen, acts.rate, seconds), open);
}

// Until it is known what there is, nothing can be clicked on: it would move under the pointer.
const unseen = wanted => document.querySelector("main").classList.toggle("unseen", wanted);

// A box of the picture leads to its row.
function open({key, name, query}) {
  if (key === streamKey(name)) ingests.open(name); else if (query === undefined) queries.open(name); else queries.open(query, "Outputs");
}

// ---- looking: one look at a time, none while nobody sees the page

let looking = null, timer = 0, failures = 0;

function lookNow() {
  clearTimeout(timer);
  // What is under way may have begun before what was just done.
  return looking ? looking.then(lookNow) : lookOnce();
}

function lookOnce() {
  looking = once().finally(() => {
    looking = null;
    if (!document.hidden) timer = setTimeout(lookOnce, Math.min(LOOK_MILLIS * 2 ** failures, LOOK_MILLIS_MAX));
  });
  return looking;
}

async function once() {
  const signal = AbortSignal.timeout(15000);
  let isSame = sameScope();
  try {
    // Without the list of them there is still this one to look at.
    let unlisted = null;
    if (!isOffered) await loadNamespaces(signal).catch(error => { unlisted = error; });
    isSame = sameScope();
    const seen = await look(signal);
    if (!isSame()) return;
    failures = 0;
    tell("live", unlisted ? `live, without the other namespaces: ${unlisted.message}` : "live");
    show(seen);
  } catch (error) {
    failures++;
    tell("", error.name === "TimeoutError" || error.name === "AbortError" ? "weir does not answer" : error.message);
  }
  if (isSame()) unseen(false);
}

function tell(className, text) {
  at("connection").className = className;
  put(at("connection"), text);
  document.body.classList.toggle("stale", !className);
}

document.addEventListener("visibilitychange", () => { clearTimeout(timer); if (!document.hidden && !looking) lookOnce(); });

// ---- the start

// Also where no list of them comes: what is done by the page is never done to another graph than the address says.
const wanted = graphNamed(new URLSearchParams(location.search).get("namespace") || "");
lookAt(wanted);
let isOffered = false;

// Asked for until it comes.
async function loadNamespaces(signal) {
  if (!await offerGraphs(at("namespace"), wanted, {signal})) say(`There is no namespace “${wanted}”.`, {wrong: true});
  isOffered = true;
}

at("namespace").addEventListener("change", event => {
  lookAt(event.target.value);
  // Streams of the same name are others there.
  meter.keep(new Set());
  unseen(true);
  ingests.update([], []);
  queries.update([], []);
  history.replaceState(null, "", ofGraph() || location.pathname);
  lookNow();
});

lookOnce();
