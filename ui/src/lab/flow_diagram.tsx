// Where the decisions flow: a band for each pair of ends, as broad as the number of its decisions.
import type { VNode } from "preact";
import { integer } from "../shared/format";
import { FATES, isChange } from "./flows";
import type { Band, Fate } from "./flows";

const WIDTH = 560;
const HEIGHT = 190;
const GAP = 10;
const LEFT = 118;
const RIGHT = WIDTH - 118;
const NODE = 8;
/** The height of the line that names both sides. */
const HEADING = 28;
/** So that one decision of ten thousand is seen. */
const THINNEST = 3;

interface Place {
  readonly fate: Fate;
  readonly count: number;
  readonly top: number;
  readonly height: number;
}

/** The ends at one side from top to bottom, and the height of a band. */
function places(bands: readonly Band[], side: "before" | "after", height: (band: Band) => number): Place[] {
  const found: Place[] = [];
  let top = 0;
  for (const fate of FATES) {
    const own = bands.filter((band) => band[side] === fate);
    if (own.length === 0) continue;
    const high = own.reduce((sum, band) => sum + height(band), 0);
    found.push({ fate, count: own.reduce((sum, band) => sum + band.count, 0), top, height: high });
    top += high + GAP;
  }
  return found;
}

interface Props {
  readonly bands: readonly Band[];
  readonly selected: Band | null;
  readonly onSelect: (band: Band) => void;
}

export function FlowDiagram({ bands, selected, onSelect }: Props): VNode {
  const total = bands.reduce((sum, band) => sum + band.count, 0);
  const scale = (HEIGHT - GAP * FATES.length) / Math.max(1, total);
  const height = (band: Band): number => Math.max(THINNEST, band.count * scale);
  const sides = { before: places(bands, "before", height), after: places(bands, "after", height) };
  const used = { before: new Map<Fate, number>(), after: new Map<Fate, number>() };
  const topOf = (band: Band, side: "before" | "after"): number => {
    const fate = band[side];
    const inside = used[side].get(fate) ?? 0;
    used[side].set(fate, inside + height(band));
    return (sides[side].find((place) => place.fate === fate)?.top ?? 0) + inside;
  };
  const shown = Math.max(...[...sides.before, ...sides.after].map(({ top, height }) => top + height), 20) + 6;
  // The same figures are in the list below, whose entries are buttons.
  return (
    <svg class="flow" viewBox={`0 ${-HEADING} ${WIDTH} ${shown + HEADING}`} aria-hidden="true">
      {total > 0 && (
        <>
          <text class="heading" x={LEFT - 8} y={4 - HEADING} text-anchor="end" dominant-baseline="hanging">
            recorded
          </text>
          <text class="heading" x={RIGHT + 8} y={4 - HEADING} dominant-baseline="hanging">
            these rules
          </text>
        </>
      )}
      {bands.map((band) => {
        const [from, to, high] = [topOf(band, "before"), topOf(band, "after"), height(band)];
        const [x0, x1, middle] = [LEFT + NODE, RIGHT - NODE, WIDTH / 2];
        const path = `M${x0} ${from}C${middle} ${from} ${middle} ${to} ${x1} ${to}v${high}C${middle} ${to + high} ${middle} ${from + high} ${x0} ${from + high}z`;
        const kind = isChange(band) ? `fate-${band.after.replace(" ", "-")}` : "fate-same";
        return <path key={`${band.before} ${band.after}`} d={path} class={`band ${kind}${selected && same(selected, band) ? " selected" : ""}`} onClick={() => onSelect(band)} />;
      })}
      {(["before", "after"] as const).flatMap((side) =>
        sides[side].map(({ fate, count, top, height }) => (
          <g key={`${side} ${fate}`}>
            <rect class={`fate-${fate.replace(" ", "-")}`} x={side === "before" ? LEFT : RIGHT - NODE} y={top} width={NODE} height={height} rx={2} />
            <text x={side === "before" ? LEFT - 8 : RIGHT + 8} y={top + height / 2} text-anchor={side === "before" ? "end" : "start"} dominant-baseline="central">
              {fate} <tspan class="count">{integer(count)}</tspan>
            </text>
          </g>
        )),
      )}
    </svg>
  );
}

export function same(one: Band, other: Band): boolean {
  return one.before === other.before && one.after === other.after;
}
