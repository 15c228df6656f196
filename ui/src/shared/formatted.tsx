// A text that may have Markdown. The code that reads it is loaded with the first one; until then the text is shown as it is.
import { signal } from "@preact/signals";
import type { ComponentType, VNode } from "preact";
import { Visible } from "./visible";

/** A sign that Markdown gives a meaning: most replies have none. */
const MARKED = /[*_`~[\]|\\&<]|^ {0,3}(?:[-+#>]|\d+[.)]|={3})|https?:|www\.|\w@\w|\n/m;

const reader = signal<ComponentType<{ text: string }> | null>(null);

export function isFormatted(text: string): boolean {
  return MARKED.test(text);
}

export function Formatted({ text }: { text: string }): VNode {
  const Markdown = reader.value;
  if (!Markdown) void import("./markdown").then((module) => (reader.value = module.Markdown)).catch(() => undefined);
  return Markdown ? <Markdown text={text} /> : <Visible text={text} />;
}
