// Definitions of streams and queries as beginnings of others. Knows no page.

import {Numeral, write} from "../explorer/values.js";

// The settings that make a query what it is, in the order in which they are read.
export const definitionOf = ({name, pattern, outputs, includeCancellations, startFrom}) => ({name, pattern, outputs, includeCancellations, ...(startFrom ? {startFrom} : {})});

// The beginning of another one like it. Masks stay where secrets were, so that none is forgotten: what has one is not sent.
export const another = definition => ({...definition, name: definition.name + "-2"});

// What the server shows instead of a secret; in an address it hides the password and the values of its query.
export const MASK = "Secret(****)";
const isMask = text => text === MASK || /^[a-z][\w+.-]*:\/\/([^/?#]*:\*{4}@|[^#]*[?&][^&#]*=\*{4}(&|#|$))/i.test(text);

// The paths at which there is the mask of a secret.
export function masksIn(value, path = "") {
  if (typeof value === "string") return isMask(value) ? [path] : [];
  if (value === null || typeof value !== "object" || value instanceof Numeral) return [];
  return Object.entries(value).flatMap(([key, part]) => masksIn(part, path ? path + "." + key : key));
}

// What is given and not among what was read of it, by paths. A form says nothing of what is not chosen: null, false, an empty text.
export function leftOut(given, read, path = "") {
  if (given === null || given === "" || typeof given === "boolean") return [];
  if (typeof given !== "object" || given instanceof Numeral) return read === undefined ? [path || write(given)] : [];
  return Object.entries(given).flatMap(([key, value]) => leftOut(value, read?.[key], path ? path + "." + key : key));
}
