// What the schemas of the server's own OpenAPI document ask for, as shapes that a form can be made of. Knows no page.
//
// A shape is {kind, …} with what it says of itself (`description`), what is taken without it (`default`), an `example`:
//   const {value}   choice {values}   boolean   number {integer, min, max}   text   secret
//   object {fields: [{name, required, shape()}]}   map {item()}   list {item()}   union {options: [{name, shape()}], tag}   any
// Shapes of parts are made when they are asked for: a destination may hold another one, and that one more.

// The shape of a schema within a document.
export function shapeOf(document, schema) {
  const full = merged(document, schema);
  const shape = {...kind(document, full), description: full.description || "", example: (full.examples || [])[0]};
  if (full.default !== undefined && full.default !== null) shape.default = full.default;
  return shape;
}

// A schema with what it refers to; what stands beside a reference is stronger.
function merged(document, schema) {
  const {$ref, allOf, ...own} = schema;
  const parts = [...($ref ? [merged(document, at(document, $ref))] : []), ...(allOf || []).map(part => merged(document, part))];
  if (!parts.length) return own;
  const all = Object.assign({}, ...parts, own);
  all.properties = Object.assign({}, ...parts.map(part => part.properties), own.properties);
  all.required = [...new Set([...parts, own].flatMap(part => part.required || []))];
  if (!Object.keys(all.properties).length) delete all.properties;
  return all;
}

const at = (document, reference) => reference.slice(2).split("/").reduce((part, key) => part[key], document);
const isNull = schema => schema.type === "null";

function kind(document, schema) {
  const options = schema.oneOf || schema.anyOf;
  if (options) return alternatives(document, schema, options.filter(option => !isNull(option)));
  if (schema.const !== undefined) return {kind: "const", value: schema.const};
  if (schema.enum) return {kind: "choice", values: schema.enum.filter(value => value !== null)};
  const type = [schema.type].flat().find(type => type !== "null");
  if (type === "boolean") return {kind: "boolean"};
  if (type === "integer" || type === "number") return {kind: "number", integer: type === "integer", min: schema.minimum, max: schema.maximum};
  if (type === "string") return {kind: schema.format === "password" ? "secret" : "text"};
  if (type === "array") return {kind: "list", item: () => shapeOf(document, schema.items || {})};
  if (schema.properties) return {kind: "object", fields: fieldsOf(document, schema)};
  if (type === "object" && schema.additionalProperties) return {kind: "map", item: () => shapeOf(document, schema.additionalProperties === true ? {} : schema.additionalProperties)};
  return {kind: "any"};
}

function fieldsOf(document, schema) {
  const required = new Set(schema.required || []);
  return Object.entries(schema.properties).map(([name, property]) => ({name, required: required.has(name), shape: () => shapeOf(document, property)}));
}

function alternatives(document, schema, options) {
  if (options.length === 1) {
    const {oneOf, anyOf, ...own} = schema;
    return kind(document, merged(document, {...options[0], ...own}));
  }
  const tag = schema.discriminator?.propertyName || (options.every(option => tagOf(document, option)) ? "type" : undefined);
  const named = options.map(option => ({name: tag ? tagOf(document, option) : nameOf(document, option), shape: () => shapeOf(document, option)}));
  return {kind: "union", tag, options: named};
}

const tagOf = (document, schema) => merged(document, schema).properties?.type?.const;

// How an alternative without a tag is called.
function nameOf(document, schema) {
  const full = merged(document, schema), shape = kind(document, full);
  if (shape.kind === "object") return shape.fields.map(({name}) => name).join(", ");
  return {secret: "value", choice: "word", list: "list", map: "object", number: "number"}[shape.kind] || (full.format === "date-time" ? "moment" : "text");
}

// Which option of a union a value is of.
export function optionOf(shape, value) {
  if (value === undefined || value === null) return undefined;
  if (shape.tag) return shape.options.find(({name}) => name === value[shape.tag]);
  return shape.options.find(option => fits(option.shape(), value));
}

function fits(shape, value) {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (shape.kind === "object") return isObject && shape.fields.every(({name, required}) => !required || name in value) && Object.keys(value).every(key => shape.fields.some(({name}) => name === key));
  if (shape.kind === "choice") return shape.values.includes(value);
  if (shape.kind === "list") return Array.isArray(value);
  if (shape.kind === "map") return isObject;
  if (shape.kind === "number") return typeof value === "number" || value?.text !== undefined;
  return typeof value === "string";
}

// The kinds that a union with a tag offers, with what each says of itself.
export function kindsOf(shape) {
  return shape.options.map(({name, shape}) => ({name, description: plain(shape().description.split("\n\n")[0])}));
}

// Visible fields first, in an order that may be wished; the others after them.
export function ordered(fields, {first = [], hidden = []} = {}) {
  const place = ({name}) => first.includes(name) ? first.indexOf(name) : first.length;
  const left = fields.filter(({name}) => !hidden.includes(name)).sort((a, b) => place(a) - place(b));
  const visible = ({name, required}) => required || first.includes(name);
  return {visible: left.filter(visible), more: left.filter(field => !visible(field))};
}

// startOffset → start offset, sslKeyPassword → ssl key password
export const words = name => name.replace(/([a-z\d])([A-Z])/g, "$1 $2").replace(/([A-Z])([A-Z][a-z])/g, "$1 $2").split(" ").map(word => /^[A-Z\d]+$/.test(word) ? word : word.toLowerCase()).join(" ");

// Documents are written with marks of code, and broken into lines, which is no help here.
export const plain = text => text.replace(/`([^`]*)`/g, "$1").replace(/\n(?![\n-])/g, " ");
