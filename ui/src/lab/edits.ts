// The conditions that the rows of tools add to the text.

/** Conditions that every tool may have, by their names. */
export const CONDITIONS: Readonly<Record<string, string>> = {
  "the second one needs a yes": "when { context.used.message.calls > 1 }\nunless { context.confirmed };",
  "at most 20 a day": "when { context.used.day.calls > 20 };",
  "not at night": "when { context.time.hour < 8 || context.time.hour >= 18 };",
};
const FIRST = '@id("what the constitution lists")\npermit (principal, action, resource);\n';

/** The conditions with one of `CONDITIONS` for a tool. */
export function withCondition(text: string, tool: string, name: string): string {
  const scope = `(principal, action == Action::${JSON.stringify(tool)}, resource)`;
  return `${(text || FIRST).trimEnd()}\n\n@id(${JSON.stringify(`${tool}: ${name}`)})\nforbid ${scope}\n${CONDITIONS[name] ?? ""}\n`;
}
