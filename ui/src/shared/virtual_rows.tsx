// A list of rows of equal height, as long as it likes: only the rows near the visible part are in the document.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";

/** Rows beyond the visible part, above and below. */
const MARGIN = 8;
/** Until the first rows are measured. */
const ROW_PX = 46;
const FIRST_ROWS = 40;

interface Props<T extends object> {
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
  readonly row: (item: T) => VNode;
  /** The number of all rows, of which `items` are the first ones; -1 if it is not known. */
  readonly size: number;
  /** Called when the end of `items` comes near. */
  readonly onNearEnd: () => void;
}

/** The rows in the nearest `main`, which scrolls. */
export function VirtualRows<T extends object>({ items, keyOf, row, size, onNearEnd }: Props<T>): VNode {
  const list = useRef<HTMLOListElement>(null);
  const pitch = useRef(ROW_PX);
  // The same object for the same item: Preact then skips the row when the list scrolls.
  const made = useRef(new WeakMap<T, VNode>());
  const [first, setFirst] = useState(0);
  const [last, setLast] = useState(FIRST_ROWS);

  useLayoutEffect(() => {
    const scroller = list.current?.closest("main");
    if (!scroller) return undefined;
    const update = (): void => {
      const rows = list.current;
      if (!rows) return;
      // The second one, because the first has no line above it.
      pitch.current = rows.children[1]?.getBoundingClientRect().height || ROW_PX;
      const above = scroller.getBoundingClientRect().top - rows.getBoundingClientRect().top;
      const begin = Math.floor(above / pitch.current) - MARGIN;
      const end = Math.ceil((above + scroller.clientHeight) / pitch.current) + MARGIN;
      setFirst(Math.max(0, Math.min(begin, items.length - 1)));
      setLast(end);
      if (end >= items.length) onNearEnd();
    };
    update();
    scroller.addEventListener("scroll", update, { passive: true });
    const resized = new ResizeObserver(update);
    resized.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", update);
      resized.disconnect();
    };
  }, [items]);

  const rowOf = (item: T): VNode => {
    const known = made.current.get(item) ?? row(item);
    made.current.set(item, known);
    return known;
  };
  const space = { paddingTop: `${first * pitch.current}px`, paddingBottom: `${Math.max(0, items.length - last) * pitch.current}px` };
  return (
    <ol class="rows virtual" ref={list} style={space}>
      {items.slice(first, last).map((item, index) => (
        <li key={keyOf(item)} aria-setsize={size} aria-posinset={first + index + 1}>
          {rowOf(item)}
        </li>
      ))}
    </ol>
  );
}
