// Values of answers: read without changing a number, told apart, and written as text, JSON and CSV. Knows no page.

// A number that JavaScript would show as another: a large integer, or a float without a fraction.
export class Numeral {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

const MARK = "\u0000number", NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

// JSON of the server, or of somebody who types it. A number that would not come back as it was sent stays as its text.
export function parse(text) {
  const parts = [], token = /"|-?\d[\d.eE+-]*/g;
  let from = 0;
  for (let found; (found = token.exec(text));) {
    const [number] = found;
    if (number === '"') { token.lastIndex = behind(text, found.index); continue; }
    // What only begins like one, such as 10.0.0.1 or a date, stays, and is no JSON.
    if (String(Number(number)) === number || !NUMBER.test(number)) continue;
    parts.push(text.slice(from, found.index), `{${JSON.stringify(MARK)}:"${number}"}`);
    from = token.lastIndex;
  }
  if (!parts.length) return JSON.parse(text);
  return JSON.parse(parts.join("") + text.slice(from), (_, value) => value && typeof value === "object" && MARK in value ? new Numeral(value[MARK]) : value);
}

// Where a text ends that begins at a place. A pattern for it takes more stack than there is when the text has some megabytes.
function behind(text, start) {
  for (let end = text.indexOf('"', start + 1); end > 0; end = text.indexOf('"', end + 1)) {
    let before = end;
    while (text[before - 1] === "\\") before--;
    if ((end - before) % 2 === 0) return end + 1;
  }
  return text.length;
}

// As JSON. With an indent, lists and objects are set out in lines.
export function write(value, indent = "", before = "") {
  if (value === undefined) return "null";
  if (value instanceof Numeral) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const inner = before + indent, line = indent ? "\n" + inner : "", end = indent ? "\n" + before : "";
  if (Array.isArray(value)) return value.length ? "[" + line + value.map(item => write(item, indent, inner)).join("," + line) + end + "]" : "[]";
  const parts = Object.entries(value).map(([key, item]) => JSON.stringify(key) + (indent ? ": " : ":") + write(item, indent, inner));
  return parts.length ? "{" + line + parts.join("," + line) + end + "}" : "{}";
}

// As it stands in a cell: texts without quotes, all else as JSON.
export function shown(value) {
  return typeof value === "string" ? value : write(value);
}

const isMap = value => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Numeral);

// A number as its digits and where they begin: 1, 1.0 and 1e0 are the same.
function decimal(text) {
  const [, sign, whole, part = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) || [];
  if (whole === undefined) return text;
  const all = (whole + part).replace(/^0+/, ""), digits = all.replace(/0+$/, "");
  return digits ? `${sign}${digits}e${Number(power) - part.length + all.length - digits.length}` : "0";
}

// As JSON with the keys of maps in order, and numbers by what they are: what is equal is the same text.
export function canonical(value) {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (typeof value === "number" || value instanceof Numeral) return decimal(String(value));
  if (!isMap(value)) return write(value);
  return "{" + Object.keys(value).sort().map(key => JSON.stringify(key) + ":" + canonical(value[key])).join(",") + "}";
}

const has = (value, ...keys) => isMap(value) && Object.keys(value).length === keys.length && keys.every(key => Object.hasOwn(value, key));

export const isNode = value => has(value, "id", "labels", "properties") && Array.isArray(value.labels) && isMap(value.properties);
export const isEdge = value => has(value, "start", "end", "name", "properties") && isMap(value.properties);

export function kindOf(value) {
  if (value === null || value === undefined) return "null";
  if (value instanceof Numeral) return /[.eE]/.test(value.text) ? "float" : "integer";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "float";
  if (typeof value === "string") return "text";
  if (typeof value === "boolean") return "boolean";
  return Array.isArray(value) ? "list" : isNode(value) ? "node" : isEdge(value) ? "edge" : "map";
}

// An edge is known by its ends and its type. Where the graph has parallel edges, those that are alike are drawn as one.
export const edgeKey = (from, type, to) => JSON.stringify([from, type, to]);

function edgeOf(value) {
  const from = String(value.start), to = String(value.end);
  return {key: edgeKey(from, value.name, to), from, to, type: value.name, properties: value.properties};
}

// The nodes and edges in rows, however deep, each once; and whether there is a column that says something besides.
export function found(rows) {
  const nodes = new Map(), edges = new Map();
  const look = value => {
    if (Array.isArray(value)) return value.map(look).some(Boolean);
    if (!isMap(value)) return false;
    if (isNode(value)) nodes.set(String(value.id), {id: String(value.id), labels: value.labels, properties: value.properties});
    else if (isEdge(value)) { const edge = edgeOf(value); edges.set(edge.key, edge); }
    else return Object.values(value).map(look).some(Boolean);
    return true;
  };
  let others = false;
  for (const row of rows) for (const value of row) if (!look(value) && value !== null) others = true;
  return {nodes: [...nodes.values()], edges: [...edges.values()], others};
}

const saysId = name => /^(str)?id(\(|$)/i.test(name) || /[._]id$|Ids?$/.test(name);

// Texts among the values of a result that may be ids: UUIDs, and what stands under a name that says so.
export function possibleIds(data) {
  const ids = new Set();
  const look = (value, name) => {
    if (Array.isArray(value)) value.forEach(item => look(item, name));
    else if (isNode(value)) ids.add(String(value.id));
    else if (isMap(value)) Object.entries(value).forEach(([key, item]) => look(item, key));
    else if (typeof value === "string" && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value)) ids.add(value);
    else if (value !== null && typeof value !== "boolean" && saysId(name)) ids.add(String(value));
  };
  look(data, "");
  return [...ids];
}

// Names of columns as keys: one that comes again gets a number.
export function keysOf(columns) {
  const seen = new Map();
  return columns.map(name => {
    const count = (seen.get(name) || 0) + 1;
    seen.set(name, count);
    return count > 1 ? name + "_" + count : name;
  });
}

export function toJson(columns, rows) {
  const keys = keysOf(columns);
  return "[" + rows.map(row => "\n  {" + keys.map((key, i) => JSON.stringify(key) + ": " + write(row[i])).join(", ") + "}").join(",") + "\n]\n";
}

// As RFC 4180 has it. What a spreadsheet would run as a formula is a text of the graph all the same, and stays as it is.
export function toCsv(columns, rows) {
  const cell = text => /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  const line = cells => cells.map(cell).join(",") + "\r\n";
  return line(columns) + rows.map(row => line(columns.map((_, i) => row[i] === null || row[i] === undefined ? "" : shown(row[i])))).join("");
}

// A text of the user as a moment, in milliseconds; null for now, undefined where it is none.
export function moment(text, now) {
  const trimmed = text.trim();
  if (trimmed === "" || trimmed.toLowerCase() === "now") return null;
  if (/^\d+$/.test(trimmed)) return Number(trimmed);
  const ago = /^-?\s*(\d+(?:\.\d+)?)\s*(s|sec|second|m|min|minute|h|hour|d|day)s?(?:\s+ago)?$/i.exec(trimmed);
  if (ago) return Math.round(now - Number(ago[1]) * {s: 1e3, m: 6e4, h: 36e5, d: 864e5}[ago[2][0].toLowerCase()]);
  const millis = Date.parse(trimmed);
  return Number.isNaN(millis) ? undefined : millis;
}
