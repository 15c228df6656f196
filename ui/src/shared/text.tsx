// Text of users, models and tools, shown as text. Characters that could hide or reorder it are made visible.
import type { ComponentChildren, VNode } from "preact";

// Control characters (except line breaks and tabs), bidi controls, zero-width characters and tag characters.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/u;

export function Visible({ text }: { text: string }): VNode {
  return <>{visible(text)}</>;
}

/** `text` with every hidden character replaced by its code point in a marked box; nearly always that is `text` itself. */
export function visible(text: string): ComponentChildren {
  if (!HIDDEN.test(text)) return text;
  const parts: (string | VNode)[] = [];
  let plain = "";
  for (const character of text) {
    if (!HIDDEN.test(character)) {
      plain += character;
      continue;
    }
    parts.push(plain, <Hidden character={character} />);
    plain = "";
  }
  return [...parts, plain];
}

function Hidden({ character }: { character: string }): VNode {
  const code = `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  return (
    <span class="hidden-character" title="A character that would be invisible">
      {code}
    </span>
  );
}

/** A value of JSON: text as it is, anything else as indented JSON. */
export function Json({ value }: { value: unknown }): VNode {
  const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  return (
    <code class="json">
      <Visible text={text} />
    </code>
  );
}
