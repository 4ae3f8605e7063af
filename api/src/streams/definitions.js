// Definitions of streams and queries as beginnings of others. Knows no page.

import {Numeral, write} from "../explorer/values.js";

// The server shows no secret; of a text in its place nothing can be made.
const MASKED = /^Secret\(\*+\)$/;
const isMasked = value => typeof value === "string" && MASKED.test(value);

// Without what is masked: it has to be given anew.
export function unmasked(value) {
  if (value === null || typeof value !== "object" || value instanceof Numeral) return value;
  if (Array.isArray(value)) return value.filter(item => !isMasked(item)).map(unmasked);
  return Object.fromEntries(Object.entries(value).filter(([, item]) => !isMasked(item)).map(([key, item]) => [key, unmasked(item)]));
}

// The settings that make a query what it is, in the order in which they are read.
export const definitionOf = ({name, pattern, outputs, includeCancellations, startFrom}) => ({name, pattern, outputs, includeCancellations, ...(startFrom ? {startFrom} : {})});

// The beginning of another one like it.
export const another = definition => ({...unmasked(definition), name: definition.name + "-2"});

// What is given and not among what was read of it, by paths. A form says nothing of what is not chosen: null, false, an empty text.
export function leftOut(given, read, path = "") {
  if (given === null || given === "" || typeof given === "boolean") return [];
  if (typeof given !== "object" || given instanceof Numeral) return read === undefined ? [path || write(given)] : [];
  return Object.entries(given).flatMap(([key, value]) => leftOut(value, read?.[key], path ? path + "." + key : key));
}
