// The main job with what openapi-typescript made of each document: a standing query, records, a question.
//
//     node job.js URL

import createClient from "openapi-fetch";
import type { paths as V1 } from "./v1.js";
import type { paths as Preview } from "./preview.js";
import type { paths as Current } from "./current.js";

declare const process: { argv: string[] };
const url = process.argv[2];

function fine<T>(answer: { data?: T; error?: unknown; response: Response }, what: string): T {
  if (answer.error !== undefined || !answer.response.ok) {
    throw new Error(`${what}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data as T;
}

// Numbers begin at 0: of ten, four are greater than 5.
async function settled(what: string, look: () => Promise<[number | undefined, number | undefined]>) {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const [records, matches] = await look();
    if (records === 10 && matches === 4) return;
    if (Date.now() > deadline) throw new Error(`${what}: ${records} records, ${matches} matches`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

function answered(what: string, table: { columns: string[]; results: unknown[][] }) {
  if (JSON.stringify(table) !== '{"columns":["i"],"results":[[7]]}') throw new Error(`${what}: ${JSON.stringify(table)}`);
  console.log(`${what}: the job is done`);
}

const write = (key: string) => `MATCH (n) WHERE id(n) = idFrom('${key}', toInteger($that)) SET n.${key} = toInteger($that)`;
const match = (key: string) => `MATCH (n) WHERE n.${key} > 5 RETURN n.${key} AS i`;
const ask = (key: string) => ({ text: `MATCH (n) WHERE id(n) = idFrom('${key}', $i) RETURN n.${key} AS i`, parameters: { i: 7 } });

async function v1(name: string) {
  const client = createClient<V1>({ baseUrl: url });
  const path = { name };
  fine(await client.POST("/api/v1/query/standing/{name}", {
    params: { path },
    body: { pattern: { type: "Cypher", mode: "MultipleValues", query: match(name) }, outputs: { none: { type: "Drop" } } },
  }), "standing query");
  fine(await client.POST("/api/v1/ingest/{name}", {
    params: { path },
    body: { type: "NumberIteratorIngest", ingestLimit: 10, format: { type: "CypherLine", query: write(name) } },
  }), "stream");
  await settled("v1", async () => {
    const stream = fine(await client.GET("/api/v1/ingest/{name}", { params: { path } }), "stream");
    const found = fine(await client.GET("/api/v1/query/standing/{name}", { params: { path } }), "standing query");
    return [stream.stats.ingestedCount, found.stats["local"]?.rates.count];
  });
  answered("v1", fine(await client.POST("/api/v1/query/cypher", { body: ask(name) }), "question"));
}

async function preview(name: string) {
  const client = createClient<Preview>({ baseUrl: url });
  const path = { name };
  fine(await client.POST("/api/v2/standing-queries", {
    body: { name, pattern: { type: "Cypher", mode: "MultipleValues", query: match(name) }, outputs: [{ name: "none", destinations: [{ type: "Drop" }] }] },
  }), "standing query");
  fine(await client.POST("/api/v2/ingests", {
    body: { name, query: write(name), source: { type: "NumberIterator", limit: 10 } },
  }), "stream");
  await settled("preview", async () => {
    const stream = fine(await client.GET("/api/v2/ingests/{name}", { params: { path } }), "stream").content;
    const found = fine(await client.GET("/api/v2/standing-queries/{name}", { params: { path } }), "standing query").content;
    return [stream.stats.ingestedCount, found.stats["local"]?.rates.count];
  });
  answered("preview", fine(await client.POST("/api/v2/cypher-queries/query-graph", { body: ask(name) }), "question").content);
}

async function current(name: string) {
  const client = createClient<Current>({ baseUrl: url });
  const graphName = "quine";
  fine(await client.POST("/api/v2/graph/{graphName}/standingQueries", {
    params: { path: { graphName } },
    body: { name, pattern: { type: "Cypher", mode: "MULTIPLE_VALUES", query: match(name) }, outputs: [{ name: "none", destinations: [{ type: "Drop" }] }] },
  }), "standing query");
  fine(await client.POST("/api/v2/graph/{graphName}/ingests", {
    params: { path: { graphName } },
    body: { name, query: write(name), source: { type: "NumberIterator", limit: 10 } },
  }), "stream");
  await settled("current", async () => {
    const stream = fine(await client.GET("/api/v2/graph/{graphName}/ingests/{ingestName}", { params: { path: { graphName, ingestName: name } } }), "stream");
    const found = fine(await client.GET("/api/v2/graph/{graphName}/standingQueries/{standingQueryName}", { params: { path: { graphName, standingQueryName: name } } }), "standing query");
    return [stream.stats.ingestedCount, found.stats["local"]?.rates.count];
  });
  answered("current", fine(await client.POST("/api/v2/graph/{graphName}/cypher:query", { params: { path: { graphName } }, body: ask(name) }), "question"));
}

await v1("t1");
await preview("t2");
await current("t3");
