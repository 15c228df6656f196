// A view whose code is loaded when it is first shown.
import { useEffect, useState } from "preact/hooks";
import type { ComponentType, VNode } from "preact";
import { Loading } from "./states";

interface Props {
  readonly load: () => Promise<ComponentType<{ id: string | null }>>;
  readonly id: string | null;
}

export function Later({ load, id }: Props): VNode {
  const [View, setView] = useState<ComponentType<{ id: string | null }> | null>(null);
  useEffect(() => void load().then((view) => setView(() => view)), [load]);
  return View ? <View id={id} /> : <Loading what="the view" />;
}
