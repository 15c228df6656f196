// A list of rows of equal height, as long as it likes: only the rows near the visible part are in the document.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";

/** Rows beyond the visible part, above and below. */
const MARGIN = 8;
/** More items are asked for when fewer than these follow the rows in the document. */
const AHEAD = 150;
/** Until the first rows are measured: the height of the last ones, so that a list can be shown at the place where it was left. */
let rowPx = 46;

interface Props<T extends object> {
  readonly items: readonly T[];
  readonly row: (item: T) => VNode;
  /** The number of all rows, of which `items` are the first ones; -1 if it is not known. */
  readonly size: number;
  /** Called when the end of `items` comes near. */
  readonly onNearEnd: () => void;
}

/** The height of a row, the number of rows in the document, and the distance of the list from the top of what scrolls. */
interface Shape {
  readonly pitch: number;
  readonly count: number;
  readonly top: number;
}

/** The rows in the nearest `main`, which scrolls. */
export function VirtualRows<T extends object>({ items, row, size, onNearEnd }: Props<T>): VNode {
  const list = useRef<HTMLOListElement>(null);
  const [first, setFirst] = useState(0);
  // The first frame has only the rows that can be seen; those beyond are added when it is painted.
  const [shape, setShape] = useState<Shape>({ pitch: rowPx, count: Math.ceil(window.innerHeight / rowPx), top: 0 });
  // One entry for each row in the document. Preact skips a row whose object is the same as before.
  const made = useRef<{ item: T; row: VNode }[]>([]);
  const { pitch, count, top } = shape;
  // What the listeners read, so that they stay when items arrive.
  const latest = useRef({ items, onNearEnd });
  latest.current = { items, onNearEnd };

  useLayoutEffect(() => {
    const scroller = list.current?.closest("main");
    if (!scroller) return undefined;
    const scrolled = (): void => {
      const known = latest.current;
      const begin = Math.floor((scroller.scrollTop - top) / pitch) - MARGIN;
      setFirst(Math.max(0, Math.min(begin, known.items.length - count)));
      if (begin + count + AHEAD >= known.items.length) known.onNearEnd();
    };
    scroller.addEventListener("scroll", scrolled, { passive: true });
    let changing = 0;
    // Called once at the start, and always after the layout, so that nothing has to be laid out for it. The change is for the
    // next frame: this one is painted first.
    const resized = new ResizeObserver(() => {
      const measured = measure(scroller, list.current);
      const isSame = measured.pitch === pitch && measured.count === count && measured.top === top;
      changing = requestAnimationFrame(() => (isSame ? scrolled() : setShape(measured)));
    });
    resized.observe(scroller);
    return () => {
      cancelAnimationFrame(changing);
      scroller.removeEventListener("scroll", scrolled);
      resized.disconnect();
    };
  }, [pitch, count, top]);
  // Also without another scroll event, such as after a jump to the end. At the start the observer's call is enough.
  useEffect(() => {
    if (first && first + count + AHEAD >= items.length) onNearEnd();
  }, [items]);

  const rowOf = (item: T, slot: number): VNode => {
    const known = made.current[slot];
    if (known?.item === item) return known.row;
    const own = { item, row: row(item) };
    made.current[slot] = own;
    return own.row;
  };
  const below = Math.max(0, items.length - first - count);
  return (
    <ol class="rows virtual" ref={list} style={{ paddingTop: `${first * pitch}px`, paddingBottom: `${below * pitch}px` }}>
      {items.slice(first, first + count).map((item, index) => {
        // A row that leaves at one end comes back at the other with a new text: no element is created while the list scrolls.
        const slot = (first + index) % count;
        return (
          <li key={slot} aria-setsize={size} aria-posinset={first + index + 1}>
            {rowOf(item, slot)}
          </li>
        );
      })}
    </ol>
  );
}

function rowsIn(height: number, pitch: number): number {
  return Math.ceil(height / pitch) + 2 * MARGIN;
}

function measure(scroller: HTMLElement, rows: HTMLElement | null): Shape {
  // The second one, because the first has no line above it.
  const pitch = rows?.children[1]?.getBoundingClientRect().height || rowPx;
  rowPx = pitch;
  const begin = rows?.getBoundingClientRect().top ?? 0;
  const top = begin - scroller.getBoundingClientRect().top + scroller.scrollTop;
  return { pitch, count: rowsIn(window.innerHeight, pitch), top };
}
