// Asks the server. Every query carries the graph and the moment that are looked at, and can be ended by a signal.

import {parse, write} from "./values.js";

// Behind a proxy the paths of weir may begin with something.
const ROOT = location.pathname.replace(/[^/]*\/?$/, "");
const ANSWER_BYTES_MAX = 64e6;

const DEFAULT_GRAPH = "default";

// What all requests are about.
export const scope = {namespace: DEFAULT_GRAPH, atTime: null};

// A graph as the server lists it: it takes names in any case, and knows the default one by another name, too.
export function graphNamed(text) {
  const name = text.toLowerCase();
  return name === "quine" || !name ? DEFAULT_GRAPH : name;
}

// The graph that is looked at: in the path of v2, as a parameter of v1, at the end of a page's address, and in figures of all graphs.
export const graphPath = () => `api/v2/graph/${encodeURIComponent(scope.namespace)}/`;
export const inGraph = () => "namespace=" + encodeURIComponent(scope.namespace);
export const ofGraph = () => scope.namespace === DEFAULT_GRAPH ? "" : "?" + inGraph();
export const graphInFigures = () => scope.namespace === DEFAULT_GRAPH ? "quine" : scope.namespace;

// Turns to a graph. Links to the pages beside this one lead to it, too.
export function lookAt(name) {
  scope.namespace = name;
  for (const link of document.querySelectorAll("#bar nav a:is([href^=streams], [href^=explorer])")) link.setAttribute("href", link.getAttribute("href").replace(/\?.*/, "") + ofGraph());
}

// Whether they still are about the same as now.
export function sameScope() {
  const {namespace, atTime} = scope;
  return () => scope.namespace === namespace && scope.atTime === atTime;
}

// `status` is that of the answer, where there was one.
export class QueryError extends Error {
  constructor(message, status = 0) { super(message); this.status = status; }
}

async function told(reply) {
  const text = await reply.text();
  try {
    const body = JSON.parse(text), list = Array.isArray(body) ? body : body.errors;
    const texts = list.map(one => typeof one === "string" ? one : one.message);
    if (texts.length) return texts.join("\n");
  } catch { /* Not as weir says it, so as it is: a proxy's word, or nothing. */ }
  return text.trim().startsWith("<") || !text.trim() ? `The server answers with ${reply.status} ${reply.statusText}` : text;
}

export async function send(path, options) {
  let reply;
  try {
    reply = await fetch(ROOT + path, options);
  } catch (error) {
    if (error.name === "AbortError" || error.name === "TimeoutError") throw error;
    throw new QueryError("weir cannot be reached: " + error.message);
  }
  if (!reply.ok) throw new QueryError(await told(reply), reply.status);
  // weir answers nothing that is asked for here with a page: a sign-on before it does, when its session has run out.
  if (/^text\/html\b/i.test(reply.headers.get("content-type") || "")) throw new QueryError("This was answered by something other than weir: sign in again, then load the page anew.");
  return reply;
}

// A whole answer as text. One that is too large to be held ends the query instead.
async function whole(reply) {
  const parts = [], decoder = new TextDecoder(), reader = reply.body.getReader();
  let size = 0;
  for (;;) {
    let next;
    try { next = await reader.read(); } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new QueryError("The answer broke off: the query failed on its way, or was ended.");
    }
    if (next.done) break;
    size += next.value.length;
    if (size > ANSWER_BYTES_MAX) {
      reader.cancel();
      throw new QueryError(`The answer is larger than ${ANSWER_BYTES_MAX / 1e6} MB, so the query was ended. Ask for less, as with LIMIT.`);
    }
    parts.push(decoder.decode(next.value, {stream: true}));
  }
  return parts.join("") + decoder.decode();
}

// Runs a query: its columns and rows. How long it may take is the server's to say (`query.timeout`).
export async function query(text, parameters = {}, {signal, timeout = "1h"} = {}) {
  const search = new URLSearchParams({timeout});
  if (scope.atTime !== null) search.set("atTime", scope.atTime);
  const reply = await send(`${graphPath()}cypher:query?${search}`, {method: "POST", headers: {"Content-Type": "application/json"}, body: write({text, parameters}), signal});
  const {columns, results} = parse(await whole(reply));
  return {columns, rows: results};
}

// One of the lists that everybody shares: sample-queries, quick-queries, node-appearances.
export async function list(name) {
  return parse(await (await send("api/v1/query-ui/" + name)).text());
}

export async function replaceList(name, items) {
  await send("api/v1/query-ui/" + name, {method: "PUT", headers: {"Content-Type": "application/json"}, body: write(items)});
}

// Looks at a graph, or at the default one where there is none of that name, which is told by false; the others can be chosen.
export async function offerGraphs(select, wanted, options) {
  const names = await (await send("api/v1/namespace", options)).json(), isThere = names.includes(wanted);
  lookAt(isThere ? wanted : DEFAULT_GRAPH);
  select.replaceChildren(...names.map(name => new Option(name, name, false, name === scope.namespace)));
  // Its room is kept, so that nothing moves beside it when it comes.
  select.classList.toggle("unseen", names.length < 2);
  return isThere;
}

export async function standingQueries(signal) {
  return (await send("api/v1/query/standing?" + inGraph(), {signal})).json();
}

// Results of a standing query from now on, or from behind the one of an id.
const resultsOf = (name, since) => `${within(`api/v1/query/standing/${encodeURIComponent(name)}/results`)}?${inGraph()}${since && "&since=" + encodeURIComponent(since)}`;

const REST_MILLIS = 2000, AGAIN_MILLIS = 3000, ASK_MILLIS = 15000;

// Who follows results. While nobody sees the page nothing is followed, and then from where it was: a browser keeps six connections
// to a server of HTTP/1.1, those of all its pages together.
const followings = new Set();
globalThis.document?.addEventListener("visibilitychange", () => { for (const one of followings) one.turn(); });

// Follows the results of a standing query. Whatever comes between, it goes on behind what came last: also when weir, or a proxy
// before it, was away for a while.
export class Following {
  #name; #acts; #last = ""; #stream = null; #timer = 0;
  isOpen = false;

  // `acts`: what happens on take(event), opens(), waits(text), missed(text) and ended(text).
  constructor(name, acts) { this.#name = name; this.#acts = acts; }

  start() { followings.add(this); this.turn(); }
  stop() { followings.delete(this); this.#close(); }
  turn() { if (document.hidden) this.#close(); else this.#connect(); }

  // Goes on after a while, with what comes then.
  skip(millis = REST_MILLIS) {
    this.#close();
    this.#last = "";
    this.#timer = setTimeout(() => this.#connect(), millis);
  }

  #connect() {
    this.#close();
    const stream = this.#stream = new EventSource(ROOT + resultsOf(this.#name, this.#last));
    this.#acts.waits("connecting …");
    const take = event => { this.#last = event.lastEventId; this.#acts.take(event); };
    stream.addEventListener("result", take);
    stream.addEventListener("cancellation", take);
    // It begins with the id of where it begins, and rests are told by one.
    stream.addEventListener("message", ({lastEventId}) => { this.#last = lastEventId; });
    stream.addEventListener("gap", () => this.#miss("Some were missed: they came faster than they could be taken."));
    stream.onopen = () => { this.isOpen = true; this.#acts.opens(); };
    stream.onerror = () => {
      this.isOpen = false;
      this.#acts.waits("connecting …");
      // An answer that is no stream of results ends it for good, and the browser does not say which one it was.
      if (stream.readyState === EventSource.CLOSED) this.#refused(stream);
    };
  }

  #close() {
    clearTimeout(this.#timer);
    this.#stream?.close();
    this.#stream = null;
    this.isOpen = false;
  }

  #miss(text, millis) {
    this.skip(millis);
    this.#acts.missed(text);
  }

  async #refused(stream) {
    const {isGap, hasEnded, text} = await refusal(this.#name, this.#last);
    // Somebody has begun it anew, or ended it.
    if (this.#stream !== stream) return;
    if (isGap) return this.#miss("What came meanwhile is not kept any more.", 0);
    if (hasEnded) { this.stop(); return this.#acts.ended("The results have ended: there is no such query any more."); }
    this.#acts.waits(text || "connecting …");
    this.#timer = setTimeout(() => this.#connect(), AGAIN_MILLIS);
  }
}

// Why results do not come. There is a gap where weir says so, and an end where its list of queries is without this one. Everything
// else passes: the text is what stands in the way.
async function refusal(name, since) {
  const signal = AbortSignal.timeout(ASK_MILLIS);
  try {
    const reply = await send(resultsOf(name, since), {signal});
    await reply.body?.cancel();
    return {};
  } catch (error) {
    if (error.status === 410) return {isGap: true};
    const all = await standingQueries(signal).catch(() => null);
    return {hasEnded: Array.isArray(all) && !all.some(one => one.name === name), text: error instanceof QueryError ? error.message : "weir does not answer"};
  }
}

// A path that a browser leaves as it is. A name that is a step of a path, however it is written, would lead to something else:
// who removes an output `..` would remove its query.
export function within(path) {
  const step = path.split("/").find(part => part === "." || part === "..");
  if (step) throw new QueryError(`A browser cannot ask for what is named “${step}”: it takes that for a step in the path. Use the API with a tool that leaves paths as they are, as curl --path-as-is.`);
  return path;
}
