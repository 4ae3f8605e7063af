// What the page asks the server: lists, what is done to a stream or a query, plans, and why; all of the graph that is looked at.

import {parse, write} from "../explorer/values.js";
import {graphInFigures, graphPath, inGraph, query, send, within} from "../explorer/query.js";

const INGEST = {v1: "ingest/", v2: "ingests/"}, STANDING = {v1: "query/standing/", v2: "standingQueries/"};
// v2 takes these names alone. What v1 or a recipe has made may have any other, and v1 finds it.
const PLAIN = /^[\w.~-]{1,128}$/;
export const isPlain = (...names) => names.every(name => PLAIN.test(name));
// The path of a stream or a query, or of what is below it.
function pathOf({v1, v2}, name, below = "", byV2 = isPlain(name)) {
  const path = encodeURIComponent(name) + below;
  return byV2 ? within(graphPath() + v2 + path) : `${within(`api/v1/${v1}${path}`)}?${inGraph()}`;
}
const turn = (kind, name, v2, v1) => isPlain(name) ? send(pathOf(kind, name, ":" + v2), {method: "POST"}) : send(pathOf(kind, name, "/" + v1), {method: "PUT"});
const json = async (path, options) => parse(await (await send(path, options)).text());
const sending = (method, body) => ({method, headers: {"Content-Type": "application/json"}, body: write(body)});

const here = ({namespace}) => namespace === graphInFigures();
// Made is only what can be reached again.
function making(body) {
  for (const one of [body, ...[body?.outputs].flat()]) within(encodeURIComponent(one?.name));
  return sending("POST", body);
}

let figures = null;

// All that is looked at every other second.
export async function look(signal) {
  const [pressures, ingests, queries] = await Promise.all(["api/v2/system/backpressure", graphPath() + "ingests", graphPath() + "standingQueries"].map(path => json(path, {signal})));
  figures = null;
  const [pressure] = pressures;
  return {pressure: {...pressure, ingests: pressure.ingests.filter(here), standingQueries: pressure.standingQueries.filter(here)}, ingests: ingests.items, queries: queries.items};
}

export const createIngest = body => json(graphPath() + "ingests", making(body));
export const pauseIngest = name => turn(INGEST, name, "pause", "pause");
export const resumeIngest = name => turn(INGEST, name, "resume", "start");
export const deleteIngest = name => send(pathOf(INGEST, name), {method: "DELETE"});
export const pushRecord = (name, text) => json(pathOf(INGEST, name, "/records"), {method: "POST", headers: {"Content-Type": "text/plain"}, body: text});

export const createStanding = body => json(graphPath() + "standingQueries", making(body));
export const pauseStanding = name => turn(STANDING, name, "pause", "pause");
export const resumeStanding = name => turn(STANDING, name, "resume", "start");
export const deleteStanding = name => send(pathOf(STANDING, name), {method: "DELETE"});
export const addOutput = (name, body) => send(pathOf(STANDING, name, "/outputs", true), making(body));
// It goes on where the one before it stood.
export const changeOutput = (name, output, body) => json(pathOf(STANDING, name, "/outputs/" + encodeURIComponent(output), true), sending("PUT", body));
export const removeOutput = (name, output) => {
  const byV2 = isPlain(name, output);
  return send(pathOf(STANDING, name, (byV2 ? "/outputs/" : "/output/") + encodeURIComponent(output), byV2), {method: "DELETE"});
};
export const plan = name => json(pathOf(STANDING, name, "/plan"));
export const planText = async (name, format) => {
  const path = pathOf(STANDING, name, "/plan");
  return (await send(`${path}${path.includes("?") ? "&" : "?"}format=${format}`)).text();
};
export const why = (name, question) => json(pathOf(STANDING, name, "/why"), sending("POST", question));

// All figures, which are asked for once between a look and the next, by however many.
export const metrics = () => figures ??= send("metrics").then(reply => reply.text());

// How a text would be kept as a standing query, or as the query of a stream; what is wrong with it is thrown. It stands on a line
// of its own behind the command, so that places in it are a line too far.
export const explain = async (command, text) => (await query(command + "\n" + text)).rows[0]?.[0];

let asked = null;
// The server's own document of its API, asked for once.
export function openApi() {
  asked ??= json("api/v2/openapi.json?relative=true").catch(error => { asked = null; throw error; });
  return asked;
}

export const bodyOf = (document, path) => document.paths[path].post.requestBody.content["application/json"].schema;
