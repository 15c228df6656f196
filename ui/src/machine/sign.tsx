// The sign of a call by how it came out. Drawn, because many fonts do not have such characters.
import type { VNode } from "preact";
import type { Verdict } from "./calls";

const CROSS = "M2.5,2.5 L9.5,9.5 M9.5,2.5 L2.5,9.5";

/** Lines in a square of 12 units. */
const LINES: Readonly<Record<Verdict | "model", string>> = {
  done: "M1.8,6.6 L4.8,9.6 L10.4,2.6",
  failed: CROSS,
  refused: CROSS,
  awaiting: "M4,2.5 V9.5 M8,2.5 V9.5",
  unknown: "M3.6,4 C3.6,1.2 8.4,1.2 8.4,4 C8.4,5.6 6,5.7 6,7.4 M6,10.2 V10.3",
  skipped: "M2.5,6 H9.5",
  running: "M1.8,8.5 H1.9 M6,8.5 H6.1 M10.2,8.5 H10.3",
  model: "M3.2,3.2 H8.8 V8.8 H3.2 Z",
};

interface Props {
  readonly of: Verdict | "model";
  /** Its width and height, and its place in another picture. */
  readonly size?: number;
  readonly x?: number;
  readonly y?: number;
}

export function Sign({ of, size = 12, x = 0, y = 0 }: Props): VNode {
  return (
    <svg class={`drawn-sign ${of}`} data-sign={of} viewBox="0 0 12 12" width={size} height={size} x={x} y={y} aria-hidden="true">
      <path d={LINES[of]} />
    </svg>
  );
}
