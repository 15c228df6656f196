// JSON of the server, in which a number may have more digits than JavaScript's numbers: `textOf` shows all of them.

const parse = JSON.parse as (text: string, reviver?: (key: string, value: unknown, context: { source: string }) => unknown) => unknown;
/** Returns a value that JSON.stringify writes as `source`. Missing in browsers from before 2025. */
const { rawJSON } = JSON as { rawJSON?: (source: string) => unknown };

export function parseJson(text: string): unknown {
  // Reading each value on its own is slow, and hardly any answer needs it.
  if (!rawJSON || !/\d{16}/.test(text)) return parse(text);
  return parse(text, (_key, value, { source }) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? rawJSON(source) : value,
  );
}

/** A value of JSON as text: a string as it is, anything else as JSON. */
export function textOf(value: unknown, indent?: number): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, indent) ?? "");
}
