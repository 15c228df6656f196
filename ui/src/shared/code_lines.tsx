// The lines about a turn that code composes: receipts of its changes, and notices.
import type { VNode } from "preact";
import { Authored } from "./authored";
import type { TextAuthors, TextPart } from "./client";

interface Props {
  readonly effects: readonly string[] | undefined;
  readonly notices: readonly string[] | undefined;
  readonly authors: TextAuthors | null | undefined;
}

export function CodeLines({ effects, notices, authors }: Props): VNode {
  return (
    <>
      <Lines title="Receipts" kind="receipt" lines={effects} parts={authors?.effects} />
      <Lines title="Notices" kind="notice" lines={notices} parts={authors?.notices} />
    </>
  );
}

interface LinesProps {
  readonly title: string;
  readonly kind: string;
  readonly lines: readonly string[] | undefined;
  readonly parts: readonly (readonly TextPart[])[] | undefined;
}

function Lines({ title, kind, lines = [], parts }: LinesProps): VNode | null {
  if (lines.length === 0) return null;
  return (
    <ul class="code-lines" aria-label={title}>
      {lines.map((line, index) => (
        <li key={index} class={kind}>
          <span>
            <Authored text={line} parts={parts?.[index]} />
          </span>
        </li>
      ))}
    </ul>
  );
}
