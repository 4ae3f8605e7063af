// What flows where: streams → graph → standing queries → outputs, how each is, and what holds up what. Knows no page.

// The states, the worst last.
export const STATES = ["flowing", "constrained", "backpressured", "failed"];
export const REST = new Set(["stopped", "paused"]);

// A queue that is so full holds up what comes before it soon, or does.
const CONSTRAINED = 0.4, FULL = 1;
// What waits for so long does not come as fast as it is found.
const LAG_SECONDS = 2;
const NEAR_LIMIT = 0.9;

// Modes as they are written in the documentation.
const MODES = {DISTINCT_ID: "DistinctId", MULTIPLE_VALUES: "MultipleValues", ANY_QUERY: "AnyQuery"};
export const modeOf = ({mode}) => MODES[mode] || mode || "";

export const streamKey = name => "ingest/" + name;
export const queryKey = name => "query/" + name;
// A name may have a slash in it.
export const outputKey = (query, output) => "output/" + encodeURIComponent(query) + "/" + output;

// The full name of a thing; an output is one of a query.
export const full = (kind, name, of) => `${kind} “${name}”` + (of === undefined ? "" : ` of “${of}”`);

// What rests has no rate, though some came within the last seconds.
export const box = (key, name, kind, state, why, rate) => ({key, name, kind, state, why: why || "", rate: REST.has(state) ? 0 : rate});

export function streamState({status, message}, pressure, rate) {
  if (status === "FAILED") return ["failed", message || "it has failed"];
  if (status === "PAUSED" || status === "RESTORED") return ["paused", status === "PAUSED" ? "paused" : "not started since the restart"];
  if (status !== "RUNNING") return ["stopped", status === "COMPLETED" ? "at the end of its source" : "stopped for good"];
  if (Object.values(pressure?.stages || {}).includes("BACKPRESSURED")) return ["backpressured", message || "waits until results are delivered"];
  if (message) return ["constrained", message];
  if (pressure?.rateLimit && rate >= pressure.rateLimit * NEAR_LIMIT) return ["constrained", `held to ${pressure.rateLimit.toLocaleString("en")} records a second by its own limit`];
  return ["flowing", ""];
}

export function queryState(stats, queue, seconds) {
  if (stats.failed) return ["failed", stats.failed];
  if (stats.paused) return ["paused", `paused; its end brings ${stats.paused.heldBack.toLocaleString("en")} results`];
  if (queue?.thresholdRatio >= FULL) return ["backpressured", "as many results wait as may"];
  if (stats.backfill) return ["constrained", `looks through the graph: ${percent(stats.backfill)} %`];
  if (stats.behind && seconds(stats.behind.by) >= LAG_SECONDS) return ["constrained", `behind by ${stats.behind.by}: ${stats.behind.changesWaiting.toLocaleString("en")} changes wait for it`];
  if (queue?.thresholdRatio >= CONSTRAINED) return ["constrained", `${queue.bufferCount.toLocaleString("en")} results wait`];
  return ["flowing", ""];
}

export const percent = ({nodesLookedAt, nodes}) => nodes ? Math.floor(100 * nodesLookedAt / nodes) : 100;

export function outputState(output, seconds) {
  const waits = output.waiting ? `${output.waiting.toLocaleString("en")} results wait` : "";
  if (output.state === "FAILED" || output.state === "PARKED") return ["failed", output.reason || "it has ended"];
  if (output.holdsIngest) return ["backpressured", "streams wait for it"];
  if (output.state === "RETRYING") return ["constrained", ["tried again", waits, output.lastError?.message].filter(Boolean).join("; ")];
  if (output.waiting && seconds(output.lag) >= LAG_SECONDS) return ["constrained", `${waits}, for ${output.lag}`];
  return ["flowing", ""];
}

// The worst of some states; of parts that all rest, that they do.
export function worst(states) {
  const busy = states.filter(state => !REST.has(state));
  if (!busy.length) return states.includes("paused") ? "paused" : states.length ? "stopped" : "flowing";
  return STATES[Math.max(...busy.map(state => STATES.indexOf(state)))];
}

// How an output with all its destinations is: as the worst of them, and why that one is so.
export function outputStateOf(destinations, seconds) {
  const states = destinations.map(one => outputState(one, seconds)), state = worst(states.map(([of]) => of));
  return [state, states.find(([of]) => of === state)?.[1] || ""];
}

// The outputs of a query by the names of its workflows: the second destination of `hook` is told as `hook#2`.
export function outputsOf(query) {
  const told = Object.entries(query.stats.local?.outputs || {});
  return query.outputs.map(workflow => ({workflow, destinations: told.filter(([name]) => name === workflow.name || name.startsWith(workflow.name + "#")).map(([name, state]) => ({name, ...state}))}));
}

// Everything that is drawn. `rate(key)` is what comes a second, or null; `seconds(text)` reads a duration of the server's.
export function flowOf({ingests, queries, pressure}, rate, seconds) {
  const pressed = new Map(pressure.ingests.map(one => [one.name, one])), queues = new Map(pressure.standingQueries.map(one => [one.name, one.queue]));
  const streams = ingests.map(stream => {
    const key = streamKey(stream.name), flow = rate(key);
    return box(key, stream.name, stream.settings.source.type, ...streamState(stream, pressed.get(stream.name), flow || 0), flow);
  });
  const standing = [], outputs = [];
  for (const query of queries) {
    const key = queryKey(query.name), mine = outputsOf(query).map(({workflow, destinations}) => {
      const told = outputKey(query.name, workflow.name);
      return {...box(told, workflow.name, workflow.destinations.map(({type}) => type).join(", "), ...outputStateOf(destinations, seconds), rate(told)),
        from: key, query: query.name, waiting: destinations.reduce((sum, {waiting}) => sum + waiting, 0)};
    });
    standing.push({...box(key, query.name, modeOf(query.pattern), ...queryState(query.stats.local || {}, queues.get(query.name), seconds), rate(key)), outputs: mine.length});
    outputs.push(...mine);
  }
  // Of this graph alone: the global valve is of all of them.
  const held = streams.some(({state}) => state === "backpressured");
  const graph = box("graph", "graph", "", held ? "backpressured" : "flowing", held ? "writes of streams wait" : "", streams.reduce((sum, {rate}) => sum + (rate || 0), 0));
  return {streams, graph, queries: standing, outputs, bottleneck: bottleneck(streams, standing, outputs)};
}

// What holds up the most, and what that is; null where nothing does.
export function bottleneck(streams, queries, outputs) {
  const running = streams.filter(({state}) => !REST.has(state) && state !== "failed");
  const holds = outputs.find(({state}) => state === "backpressured") || queries.find(({state}) => state === "backpressured");
  const held = running.length === 1 ? "the " + full("stream", running[0].name) : running.length ? `${running.length} streams` : "all streams";
  const named = ({name, query}) => "The " + (query === undefined ? full("query", name) : full("output", name, query));
  if (holds) return {key: holds.key, text: `${named(holds)} holds up ${held}.`};
  const ended = outputs.filter(({state}) => state === "failed").sort((a, b) => b.waiting - a.waiting)[0];
  if (ended) return {key: ended.key, text: `${named(ended)} has ended: its results wait, and the log is kept for them.`};
  const slow = outputs.filter(({state}) => state === "constrained").sort((a, b) => b.waiting - a.waiting)[0];
  if (slow) return {key: slow.key, text: `${named(slow)} delays its own results: ${slow.why}.`};
  const behind = queries.find(({state}) => state === "constrained");
  if (behind) return {key: behind.key, text: `${named(behind)} delays its ${behind.outputs === 1 ? "output" : "outputs"}: ${behind.why}.`};
  return null;
}
