// Where something is wrong, by what the server says of it. Knows no page.

// Where an error of Cypher is in a text: "… at 2.7 …" is line 2, column 7; undefined if nothing is said.
export function placeIn(text, message) {
  const said = /\bat (\d+)\.(\d+)\b/.exec(message);
  if (!said) return undefined;
  const lines = text.split("\n"), line = Number(said[1]) - 1;
  if (line < 0 || line >= lines.length) return undefined;
  const before = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
  return before + Math.min(Number(said[2]) - 1, lines[line].length);
}

// Of which field an error speaks, where of several of the first: "DecodingFailure at .url: … (in .source)" → "source.url".
export function fieldIn(message) {
  const [, first = ""] = message.split("DecodingFailure at ");
  const parts = [/\(in \.([\w.[\]]+)\)/, /^\.([\w.[\]]+)/].map(sought => sought.exec(first)?.[1]).filter(Boolean);
  return parts.length ? parts.join(".").replace(/\[(\d+)\]/g, ".$1") : undefined;
}
