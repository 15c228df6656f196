// Text of users, models and tools, shown as text. Characters that could hide or reorder it are made visible.
import type { ComponentChildren, VNode } from "preact";
import { textOf } from "./json";

// The hidden characters of graph_agent/reply/text.py, in Unicode's properties because the page must stay small. For the same reason
// a joiner or a variation selector is left alone wherever it follows a script or an emoji that may need it.
const HIDDEN =
  /(?![\t\n]|(?<=[\u0600-\u18af\u203c-\u3299\u{1f000}-\u{1faff}]\ufe0f?)[\u200b-\u200d\ufe0e\ufe0f])([\p{Cc}\p{Co}\p{Cs}\p{DI}\u2028\u2029\u2800])/u;

export function Visible({ text }: { text: string }): VNode {
  return <>{visible(text)}</>;
}

/** `text` with every hidden character replaced by its code point; nearly always that is `text` itself. */
export function visible(text: string): ComponentChildren {
  // The pattern has one group, so every second part of the split is a hidden character.
  return text.split(HIDDEN).map((part, index) => (index % 2 ? <Hidden character={part} /> : part));
}

function Hidden({ character }: { character: string }): VNode {
  return (
    <span class="hidden-character" title="A character that would be invisible">
      ‹U+{character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}›
    </span>
  );
}

/** A value of JSON: text as it is, anything else as indented JSON. */
export function Json({ value }: { value: unknown }): VNode {
  return (
    <code class="json">
      <Visible text={textOf(value, 2)} />
    </code>
  );
}
