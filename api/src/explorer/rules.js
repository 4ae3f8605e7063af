// How a node looks and what can be asked of it, by the lists of the server (query-ui); and the queries the page itself sends.

import {canonical, write} from "./values.js";

// Whether a node is one that a rule is for: all keys are there, all known values are these, and the label is one of it,
// or all of them, in order with colons between, as older rules have it.
export function fits(predicate, node) {
  const has = key => Object.hasOwn(node.properties, key) && node.properties[key] !== null;
  return (predicate.propertyKeys || []).every(has)
    && Object.entries(predicate.knownValues || {}).every(([key, value]) => has(key) && canonical(node.properties[key]) === canonical(value))
    && (!predicate.dbLabel || node.labels.includes(predicate.dbLabel) || [...node.labels].sort().join(":") === predicate.dbLabel);
}

const shortId = id => id.length > 10 ? id.slice(0, 8) + "…" : id;

// What stands below a node where no rule says so.
function usualCaption(node) {
  for (const key of ["name", "title", "label"])
    if (typeof node.properties[key] === "string" && node.properties[key] !== "") return node.properties[key];
  return node.labels.length ? node.labels.join(":") : shortId(node.id);
}

function caption(label, node) {
  if (label && label.type === "Constant") return label.value;
  const value = label && node.properties[label.key];
  if (value === undefined || value === null) return usualCaption(node);
  return (label.prefix || "") + (typeof value === "string" ? value : write(value));
}

// The first rule that fits counts, and no other. What it leaves out is null, for the canvas to choose.
export function appearance(rules, node) {
  const rule = rules.find(rule => fits(rule.predicate, node)) || {};
  const size = Number(rule.size) > 0 ? Math.min(Math.max(rule.size, 8), 120) : null;
  const color = CSS_COLOR.test(rule.color || "") ? rule.color : null;
  return {size, color, icon: rule.icon || null, caption: caption(rule.label, node)};
}

const CSS_COLOR = /^(#[0-9a-f]{3,8}|[a-z]+|(rgb|hsl)a?\([\d\s.,%/deg]+\))$/i;

export const DEFAULT_QUICK = {
  predicate: {propertyKeys: [], knownValues: {}},
  quickQuery: {name: "Adjacent Nodes", querySuffix: "MATCH (n)--(m) RETURN DISTINCT m", queryLanguage: "Cypher", sort: "Node"},
};

// What a node is called where no caption is: by its labels, or that nothing of it is there at the moment that is looked at.
export const kindOfNode = node => node.gone ? "not there at this moment" : node.labels.join(":") || "no label";

// The nodes with all words of a text in them, the likeliest first: those that are called so, then whose caption has the text in
// it, then all its words.
export function sought(nodes, text) {
  const phrase = text.trim().toLowerCase().replace(/\s+/g, " "), words = phrase.split(" ").filter(Boolean);
  const all = node => [node.id, node.labels.join(" "), node.caption, write(node.properties)].join(" ").toLowerCase(), hasWords = told => words.every(word => told.includes(word));
  const rank = node => (told => told === phrase ? 0 : told.includes(phrase) ? 1 : hasWords(told) ? 2 : 3)(node.caption.toLowerCase());
  const hits = words.length ? nodes.filter(node => hasWords(all(node))).map(node => ({node, rank: rank(node)})) : [];
  return hits.sort((a, b) => a.rank - b.rank).map(({node}) => node);
}

// Those that every one of some nodes has. An edge that is drawn begins at one node, so of several there is none.
export function offered(quick, nodes) {
  return quick.filter(({predicate, quickQuery}) => (quickQuery.queryLanguage || "Cypher") === "Cypher"
    && (nodes.length === 1 || !quickQuery.edgeLabel) && nodes.every(node => fits(predicate, node)));
}

// In front of a suffix: the nodes it is about, by the text of their ids, which is there for every scheme of ids.
export function about(ids, suffix) {
  return ids.length === 1
    ? {text: "MATCH (n) WHERE strId(n) = $nodeId " + suffix, parameters: {nodeId: ids[0]}}
    : {text: "UNWIND $nodeIds AS nodeId MATCH (n) WHERE strId(n) = nodeId " + suffix, parameters: {nodeIds: ids}};
}

// The same with the ids in the text, for somebody to read, change and run.
export function inlined({text, parameters}) {
  return text.replace(/\$(nodeIds?)\b/g, (all, name) => name in parameters ? write(parameters[name]) : all);
}

export const nodesById = ids => ({text: "UNWIND $nodeIds AS nodeId MATCH (n) WHERE strId(n) = nodeId RETURN n", parameters: {nodeIds: ids}});

// Which of some nodes have an edge. Any id has a row, also that of a node that is not there.
export const edged = ids => ({text: "UNWIND $nodeIds AS nodeId MATCH (n)--() WHERE strId(n) = nodeId RETURN DISTINCT nodeId", parameters: {nodeIds: ids}});

// All edges that begin or end at some nodes and lead to one that is drawn.
export function edgesAmong(ids, drawn, atMost) {
  return {
    text: "UNWIND $nodeIds AS nodeId MATCH (n)-[e]-(m) WHERE strId(n) = nodeId AND $drawn[strId(m)] IS NOT NULL RETURN DISTINCT e LIMIT " + atMost,
    parameters: {nodeIds: ids, drawn: Object.fromEntries(drawn.map(id => [id, true]))},
  };
}

export const edgeCounts = id => ({
  text: "MATCH (n) WHERE strId(n) = $nodeId MATCH (n)-[e]->() RETURN type(e) AS type, true AS out, count(*) AS count "
    + "UNION ALL MATCH (n) WHERE strId(n) = $nodeId MATCH (n)<-[e]-() RETURN type(e) AS type, false AS out, count(*) AS count",
  parameters: {nodeId: id},
});

const quoted = name => "`" + name.replaceAll("`", "``") + "`";

export function neighbours(id, type, out, atMost) {
  const edge = "-[:" + quoted(type) + "]-";
  return about([id], `MATCH (n)${out ? edge + ">" : "<" + edge}(m) RETURN DISTINCT m LIMIT ${atMost}`);
}

// `OBSERVE name` asks for the results of a standing query as they come.
export function observed(text) {
  const match = /^\s*OBSERVE\s+(?:`([^`]+)`|"([^"]+)"|'([^']+)'|(\S+?))\s*;?\s*$/i.exec(text);
  return match ? match[1] || match[2] || match[3] || match[4] : null;
}

// Whether a query does nothing but read the graph, if it leaves it as it is: what it calls or loads may ask other servers, and so
// carry out what it reads; and it may end the queries of others. What lists recent nodes does neither.
export const onlyReads = text => !/\b(CALL(?!\s+recentNode(s|Ids)\s*\()|LOAD|TERMINATE)\b/i.test(text);

// Where an error of Cypher is in a text: "… at 2.7 …" is line 2, column 7; undefined if nothing is said.
export function placeIn(text, message) {
  const said = /\bat (\d+)\.(\d+)\b/.exec(message);
  if (!said) return undefined;
  const lines = text.split("\n"), line = Number(said[1]) - 1;
  if (line < 0 || line >= lines.length) return undefined;
  const before = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
  return before + Math.min(Number(said[2]) - 1, lines[line].length);
}

// What the address asks for: `#query=…`, or as it once was, a fragment without `=`.
export function asked(search, fragment) {
  const query = new URLSearchParams(search), text = fragment.replace(/^#/, "");
  const decoded = part => { try { return decodeURIComponent(part); } catch { return part; } };
  const named = text.split("&").find(part => part.startsWith("query="));
  return {
    query: named ? decoded(named.slice(6)) : text.includes("=") ? "" : decoded(text),
    interactive: query.get("interactive") !== "false",
    layout: query.get("layout") === "tree" ? "tree" : "graph",
    atTime: query.get("atTime") || "",
    namespace: query.get("namespace") || "",
  };
}
