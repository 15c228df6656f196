// The lines about a turn that code composes: receipts of its changes, and notices.
import type { VNode } from "preact";
import { Visible } from "./text";

interface Props {
  readonly effects: readonly string[] | undefined;
  readonly notices: readonly string[] | undefined;
}

export function CodeLines({ effects, notices }: Props): VNode {
  return (
    <>
      <Lines title="Receipts" kind="receipt" lines={effects} />
      <Lines title="Notices" kind="notice" lines={notices} />
    </>
  );
}

function Lines({ title, kind, lines = [] }: { title: string; kind: string; lines: readonly string[] | undefined }): VNode | null {
  if (lines.length === 0) return null;
  return (
    <ul class="code-lines" aria-label={title}>
      {lines.map((line, index) => (
        <li key={index} class={kind}>
          <Visible text={line} />
        </li>
      ))}
    </ul>
  );
}
