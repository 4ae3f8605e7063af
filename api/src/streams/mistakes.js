// Where something is wrong, by what the server says of it. Knows no page.

// Of which field an error speaks, where of several of the first: "DecodingFailure at .url: … (in .source)" → "source.url".
export function fieldIn(message) {
  const [, first = ""] = message.split("DecodingFailure at ");
  const parts = [/\(in \.([\w.[\]]+)\)/, /^\.([\w.[\]]+)/].map(sought => sought.exec(first)?.[1]).filter(Boolean);
  return parts.length ? parts.join(".").replace(/\[(\d+)\]/g, ".$1") : undefined;
}
