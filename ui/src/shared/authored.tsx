// A text by its authors: the model in serif type, code in sans serif, a server in italics of one width.
import type { VNode } from "preact";
import type { TextAuthors, TextPart } from "./client";
import { Visible } from "./text";

interface Props {
  readonly text: string;
  /** The parts of the text; undefined if its authors are not recorded. */
  readonly parts: readonly TextPart[] | undefined;
}

const NAMES = { model: "the model", code: "code", server: "a server", user: "the user" } as const;

export function Authored({ text, parts }: Props): VNode {
  if (!parts) return <Visible text={text} />;
  return (
    <>
      {parts.map((part, index) => (
        <span key={index} class={`by-${part.author}`} title={`by ${NAMES[part.author]}`}>
          <Visible text={part.text} />
        </span>
      ))}
    </>
  );
}

/** Who wrote a reply: "by the model and code". */
export function byline(authors: TextAuthors | null | undefined): string {
  if (!authors) return "author not recorded";
  return `by ${[...new Set(authors.reply.map((part) => NAMES[part.author]))].join(" and ")}`;
}
