// The rules at one side, and what they do at the other.
import type { ComponentChildren, VNode } from "preact";

export function Columns({ rules, children }: { rules: VNode; children: ComponentChildren }): VNode {
  return (
    <div class="columns">
      {rules}
      <div class="facts">{children}</div>
    </div>
  );
}
