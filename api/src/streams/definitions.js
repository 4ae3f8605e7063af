// Definitions of streams and queries as beginnings of others. Knows no page.

import {Numeral, write} from "../explorer/values.js";

// The settings that make a query what it is, in the order in which they are read.
export const definitionOf = ({name, pattern, outputs, includeCancellations, startFrom}) => ({name, pattern, outputs, includeCancellations, ...(startFrom ? {startFrom} : {})});

// The beginning of another one like it. Masks stay where secrets were: the server refuses each by its place, so that none is forgotten.
export const another = definition => ({...definition, name: definition.name + "-2"});

// What is given and not among what was read of it, by paths. A form says nothing of what is not chosen: null, false, an empty text.
export function leftOut(given, read, path = "") {
  if (given === null || given === "" || typeof given === "boolean") return [];
  if (typeof given !== "object" || given instanceof Numeral) return read === undefined ? [path || write(given)] : [];
  return Object.entries(given).flatMap(([key, value]) => leftOut(value, read?.[key], path ? path + "." + key : key));
}
