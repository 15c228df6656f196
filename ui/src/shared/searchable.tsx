// A list with a search, once it is too long to be read as a whole.
import { useState } from "preact/hooks";
import type { ComponentChildren, VNode } from "preact";

const LONG = 12;

interface Props<T> {
  readonly label: string;
  readonly items: readonly T[];
  readonly textOf: (item: T) => string;
  readonly children: (found: readonly T[]) => ComponentChildren;
}

export function Searchable<T>({ label, items, textOf, children }: Props<T>): VNode {
  const [wanted, setWanted] = useState("");
  const words = wanted.toLowerCase().split(/\s+/);
  const found = items.filter((item) => words.every((word) => textOf(item).toLowerCase().includes(word)));
  return (
    <>
      {items.length > LONG && (
        <p class="search">
          <input type="search" aria-label={label} placeholder={label} value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
          <span class="quiet" role="status">
            {found.length} of {items.length}
          </span>
        </p>
      )}
      {children(found)}
    </>
  );
}
