// A text by its authors: the model in serif type, code in sans serif, a server in italics of one width.
import type { VNode } from "preact";
import type { TextAuthors, TextPart } from "./client";
import { Formatted, isFormatted } from "./formatted";
import { TableOf } from "./said_table";
import { Visible } from "./visible";

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

/** A reply, in which what a model or a server has written on lines of its own is read as Markdown, and a list is a table. */
export function Reply({ text, parts = [] }: Props): VNode {
  const isBlock = (index: number): boolean => {
    const part = parts[index];
    if (part?.table) return true;
    if (!part || (part.author !== "model" && part.author !== "server") || !isFormatted(part.text)) return false;
    return /(^|\n)$/.test(parts[index - 1]?.text ?? "") && /^(\n|$)/.test(parts[index + 1]?.text ?? "");
  };
  if (!parts.some((_, index) => isBlock(index))) return <Authored text={text} parts={parts.length ? parts : undefined} />;
  return (
    <>
      {parts.map((part, index) =>
        isBlock(index) ? (
          <div key={index} class={`formatted by-${part.author}`} title={`by ${NAMES[part.author]}`}>
            {part.table ? <TableOf table={part.table} /> : <Formatted text={part.text} />}
          </div>
        ) : (
          <Authored key={index} text="" parts={[{ ...part, text: between(part.text, isBlock(index - 1), isBlock(index + 1)) }]} />
        ),
      )}
    </>
  );
}

/** A text without the line breaks beside a block, which ends its line by itself. */
function between(text: string, after: boolean, before: boolean): string {
  const start = after ? text.replace(/^\n+/, "") : text;
  return before ? start.replace(/\n+$/, "") : start;
}

/** Who wrote a reply: "by the model and code". */
export function byline(authors: TextAuthors | null | undefined): string {
  if (!authors) return "author not recorded";
  return `by ${[...new Set(authors.reply.map((part) => NAMES[part.author]))].join(" and ")}`;
}
