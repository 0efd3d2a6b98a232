// Headers of messages as people write and read them: `name: value`, one in a line. A name may stand in several.

// Lines as the object that is sent; a name that stands in several has a list of values.
export function headersOf(text) {
  const found = new Map();
  for (const line of text.split("\n").filter((line) => line.trim() !== "")) {
    const colon = line.indexOf(":");
    if (colon < 1) throw new Error(`A header is written as name: value, not ${line}`);
    const name = line.slice(0, colon).trim();
    found.set(name, [...(found.get(name) ?? []), line.slice(colon + 1).trim()]);
  }
  return Object.fromEntries([...found].map(([name, values]) => [name, values.length > 1 ? values : values[0]]));
}

// The headers of a message as lines.
export function headerLines({ headers = {}, headers_base64: others = {} }) {
  const lines = (from, note) =>
    Object.entries(from).flatMap(([name, values]) => [values].flat().map((value) => `${name}${note}: ${value}`));
  return [...lines(headers, ""), ...lines(others, ", in base64")];
}
