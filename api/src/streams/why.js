// Why a standing query has a result, or has none: answers of the server, set out to be read.

import {make, putLong} from "../explorer/dom.js";
import {shown, write} from "../explorer/values.js";
import {ofGraph} from "../explorer/query.js";

const VALUE_MAX = 300;

const explorer = ids => {
  const text = `UNWIND ${write(ids)} AS nodeId MATCH (n) WHERE strId(n) = nodeId RETURN n`;
  return "explorer" + ofGraph() + "#query=" + encodeURIComponent(text);
};

const link = (ids, text, title = "Look at it in the explorer") => make("a", {href: explorer(ids), title, target: "_blank", rel: "noopener"}, text);

const when = since => since ? make("time", {dateTime: since.time, title: "tick " + since.tick}, new Date(since.time).toLocaleString("en", {hour12: false})) : make("span", {className: "soft"}, "as far back as history goes");

export function answer(told) {
  const parts = told.matches.map(match);
  if (told.gaveUp) parts.push(make("p", {className: "soft"}, "There was too much to try; this is not all."));
  if (told.more) parts.push(make("p", {className: "soft"}, "There are more like these; ten are told."));
  if (!told.matches.length) parts.push(...none(told));
  return make("div", {className: "why"}, make("p", {className: "soft"}, "As of ", when(told.moment)), ...parts);
}

function match({data, nodes, facts, since, sinceAtLeast, times, made}) {
  const isThere = since ? ["There since ", when(since)] : sinceAtLeast ? ["There at least since ", when(sinceAtLeast)] : ["There as far back as history goes"];
  return make("article", {}, make("h5", {}, values(data)), make("p", {}, ...isThere, times > 1 ? `, ${times} times` : "", "."), nodes ? nodesOf(nodes) : null, facts ? factTable(facts) : null, ...(made || []).map(one => stage(one, true)));
}

// `properties` are those of the buttons that show long values whole.
export const values = (data, properties) => make("span", {className: "cells"}, ...Object.entries(data).map(([name, value]) => make("span", {className: "cell"}, make("span", {className: "soft"}, name + " "), putLong(make("code"), shown(value), VALUE_MAX, properties))));

function nodesOf(nodes) {
  const all = Object.entries(nodes);
  if (!all.length) return null;
  return make("p", {className: "nodes"}, ...all.map(([name, id]) => make("span", {}, make("code", {}, name), " ", link([id], id))), all.length > 1 ? link(all.map(([, id]) => id), "all of them in the explorer") : null);
}

const place = ({ingest, placeInBatch, positionAfterBatch}) => make("span", {title: "the source stood at " + shown(positionAfterBatch) + " after the batch"}, `${ingest}, record ${placeInBatch + 1} of its batch`);

function what(fact) {
  const {node, id, label, property, value, edge, from, type, to} = fact;
  const of = property ? [" .", make("code", {}, property), " = ", make("code", {}, shown(value))] : [];
  if (from !== undefined && from !== null) return [make("code", {}, edge || `-[:${type}]->`), ...of, " ", link([from, to], "both ends")];
  return [id ? link([id], node || id) : node || "", ...(label ? [" is ", make("code", {}, ":" + label)] : of)];
}

function factTable(facts, more) {
  return make("div", {className: "scroll"}, make("table", {className: "fact-table"}, make("thead", {}, make("tr", {}, ...["Rests on", "Since", "Brought by"].map(text => make("th", {scope: "col"}, text)))),
    make("tbody", {}, ...facts.map(fact => make("tr", {}, make("td", {}, ...what(fact)), make("td", {}, when(fact.since)), make("td", {}, fact.record ? place(fact.record) : make("span", {className: "soft"}, "no stream"))))),
    more ? make("caption", {}, `and ${more} more`) : null));
}

// A row of a stage, and below it what it was made of.
function stage(one, open) {
  const counts = [one.rows ? `${one.rows} rows` : "", one.place ? `place ${one.place} of ${one.among}` : "", one.part ? `part ${one.part}` : ""].filter(Boolean).join(", ");
  return make("details", {open, className: "stage"}, make("summary", {}, make("b", {}, one.stage), " ", make("code", {}, one.says), counts ? make("span", {className: "soft"}, " " + counts) : null),
    values(one.values), one.nodes ? nodesOf(one.nodes) : null, one.facts?.length ? factTable(one.facts, one.moreFacts) : null, ...(one.asked || []).map(question), ...(one.of || []).map((below, i) => stage(below, i === 0)), ...(one.whyNot || []).map(failure));
}

function question({looksFor, where, found, holds, values: seen, whyNot}) {
  const yes = found ?? holds;
  return make("div", {className: "asked"}, make("p", {}, make("b", {className: yes ? "good" : "soft"}, looksFor ? found ? "finds " : "does not find " : holds ? "holds: " : "does not hold: "), make("code", {}, looksFor || where)), seen ? values(seen) : null, ...(whyNot || []).map(failure));
}

function none({whyNot, otherResults}) {
  const parts = [make("p", {}, make("b", {}, whyNot?.length ? "There is no such result. This got farthest:" : "There is no such result."))];
  parts.push(...(whyNot || []).map(failure));
  if (otherResults?.length) parts.push(make("details", {}, make("summary", {}, `Other results: ${otherResults.length}`), ...otherResults.map(data => make("p", {}, typeof data === "object" && data ? values(data) : shown(data)))));
  return parts;
}

function failure({nodes, edges, stage: name, says, fails, values: seen, of, facts, moreFacts, asked}) {
  return make("article", {className: "fails"}, make("p", {}, make("b", {className: "wrong"}, fails)), name ? make("p", {}, name + " ", make("code", {}, says || "")) : null, seen && Object.keys(seen).length ? values(seen) : null,
    nodes ? nodesOf(nodes) : null, edges?.length ? make("p", {}, "with ", ...edges.flatMap(edge => [make("code", {}, edge), " "])) : null, facts?.length ? factTable(facts, moreFacts) : null, ...(asked || []).map(question), ...(of || []).map(one => stage(one, false)));
}
