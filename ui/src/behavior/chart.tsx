// A chart over time. All charts have the same range and point at the same part of it; the legend has the numbers.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { day, fullTime, timeOfDay } from "../shared/format";

export interface Series {
  readonly name: string;
  /** The name of the CSS variable with its color. */
  readonly color: string;
  /** One value for each time; null where there is none. */
  readonly values: readonly (number | null)[];
  /** The figure for the whole range. */
  readonly total: string;
  /** The list of what is counted. */
  readonly href?: string;
}

interface Props {
  readonly title: string;
  /** The start of each part of the range. */
  readonly starts: readonly string[];
  readonly series: readonly Series[];
  /** Bars are added up; each of the rows has its own bars. */
  readonly kind: "bars" | "lines" | "rows";
  readonly format: (value: number) => string;
}

/** The part of the range that the pointer is at, in every chart. */
const at = signal<number | null>(null);

const LABELS = 4;
/** Parts of the range with a value, without which there is no chart. */
const LEAST = 3;
const DAY_MS = 86_400_000;

export function Chart(props: Props): VNode {
  const { title, starts, series, kind, format } = props;
  const start = at.value === null ? undefined : starts[at.value];
  const filled = starts.filter((_, index) => series.some(({ values }) => values[index]));
  const isSparse = filled.length < LEAST;
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <span class="quiet">{start && !isSparse ? fullTime(start) : ""}</span>
      </figcaption>
      {isSparse ? (
        <p class="quiet">
          {filled.length === 0 ? "Nothing in this time." : `Too little for a chart: all of it is from ${filled.length === 1 ? "one part" : "two parts"} of this time.`}
        </p>
      ) : (
        kind !== "rows" && <Plot {...props} />
      )}
      <ul class={kind === "rows" && !isSparse ? "legend small-multiples" : "legend"} aria-label={title}>
        {series.map((one) => (
          <li key={one.name}>
            {kind !== "rows" && !isSparse && <span class={`swatch ${one.color}`} aria-hidden="true" />}
            {one.href ? <a href={addressOf(one.href)}>{one.name}</a> : <span>{one.name}</span>}{" "}
            {kind === "rows" && !isSparse && <Bars series={[one]} top={Math.max(...series.flatMap(({ values }) => values.map(Number)), 1)} />}
            <strong>{at.value === null || isSparse ? one.total : shown(one.values[at.value], format)}</strong>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function shown(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? "–" : format(value);
}

function Plot({ starts, series, kind, format }: Props): VNode {
  const sums = starts.map((_, index) => series.reduce((sum, one) => sum + (one.values[index] ?? 0), 0));
  const highest = kind === "bars" ? Math.max(...sums) : Math.max(...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const top = ceiling(highest, kind === "bars");
  return (
    <div class="plot" aria-hidden="true">
      <div class="scale">
        {[1, 0.5, 0].map((share) => (
          <span key={share}>{format(top * share)}</span>
        ))}
      </div>
      {kind === "bars" ? <Bars series={series} top={top} /> : <Lines series={series} top={top} />}
      <div class="times">
        {Array.from({ length: LABELS }, (_, index) => starts[Math.floor((index * starts.length) / LABELS)] ?? "").map((start, index) => (
          <span key={index}>{tick(start, Date.parse(starts.at(-1) ?? "") - Date.parse(starts[0] ?? ""))}</span>
        ))}
      </div>
    </div>
  );
}

/** The upper end of a scale: 1, 2 or 5 with zeros, and of whole numbers an even one, so that its half is whole too. */
function ceiling(highest: number, isWhole: boolean): number {
  const least = Math.max(highest, isWhole ? 2 : 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const found = ([1, 2, 4, 5, 6, 8, 10].find((step) => step * power >= least) ?? 10) * power;
  return isWhole && found % 2 ? found + 1 : found;
}

function tick(start: string, span: number): string {
  return span > DAY_MS ? day(new Date(start)) : timeOfDay(new Date(start));
}

interface DrawnProps {
  readonly series: readonly Series[];
  readonly top: number;
}

/** The shapes are as broad as there are parts and as high as the scale; the element gives them their size. */
function Frame({ parts, top, children }: { parts: number; top: number; children: readonly VNode[] }): VNode {
  return (
    <svg
      viewBox={`0 0 ${parts} ${top}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      onPointerMove={({ clientX, currentTarget }) => {
        const { left, width } = currentTarget.getBoundingClientRect();
        at.value = Math.min(parts - 1, Math.max(0, Math.floor(((clientX - left) / width) * parts)));
      }}
      onPointerLeave={() => (at.value = null)}
    >
      {at.value !== null && <rect class="pointed" x={at.value} y={0} width={1} height={top} />}
      {children}
    </svg>
  );
}

function Bars({ series, top }: DrawnProps): VNode {
  const parts = series[0]?.values.length ?? 1;
  const below = new Array<number>(parts).fill(0);
  return (
    <Frame parts={parts} top={top}>
      {series.map((one) => (
        <g key={one.name} style={{ fill: `var(--${one.color})` }}>
          {one.values.map((value, index) => {
            if (!value) return null;
            below[index] = (below[index] ?? 0) + value;
            return <rect key={index} x={index + 0.14} width={0.72} y={top - (below[index] ?? 0)} height={value} />;
          })}
        </g>
      ))}
    </Frame>
  );
}

function Lines({ series, top }: DrawnProps): VNode {
  return (
    <Frame parts={series[0]?.values.length ?? 1} top={top}>
      {series.map((one) => {
        const points = one.values.flatMap((value, index) => (value === null ? [] : [`${index + 0.5} ${top - value}`]));
        return (
          <g key={one.name} class="line" style={{ stroke: `var(--${one.color})` }}>
            <path d={`M${points.join("L")}`} />
            {/* A line of no length with round ends is a point, however the shapes are stretched. */}
            <path class="points" d={points.map((point) => `M${point}h0`).join("")} />
          </g>
        );
      })}
    </Frame>
  );
}
