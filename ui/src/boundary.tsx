// A part of the page that cannot be drawn is shown in another form, and the rest of the page goes on.
import { useErrorBoundary } from "preact/hooks";
import type { ComponentChildren, VNode } from "preact";

interface Props {
  readonly children: ComponentChildren;
  readonly instead: VNode;
}

export function Boundary({ children, instead }: Props): VNode {
  const [error] = useErrorBoundary();
  return error === undefined ? <>{children}</> : instead;
}
