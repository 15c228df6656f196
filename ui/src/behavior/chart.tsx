// A chart over time, drawn by uPlot; its numbers are in the legend too.
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import type uPlot from "uplot";
import { day, fullTime, timeOfDay } from "../shared/format";

const HEIGHT = 190;
const BAR_SHARE = 0.72;
const MAX_BAR = 48;

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
  /** The start of each part of the range, and its end. */
  readonly starts: readonly string[];
  readonly until: string;
  readonly series: readonly Series[];
  readonly kind: "bars" | "lines";
  readonly format: (value: number) => string;
}

let Plot: typeof uPlot | null = null;

/** Load the code of the charts, which no other view needs. It must be loaded before a chart is shown. */
export async function loadCharts(): Promise<void> {
  Plot = (await import("uplot")).default;
}

export function Chart({ title, starts, until, series, kind, format }: Props): VNode {
  const place = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  const scheme = useColorScheme();
  useEffect(() => {
    const element = place.current;
    if (!element || !Plot) return undefined;
    const plot = new Plot(
      { ...options({ starts, until, series, kind, format }), width: element.clientWidth, height: HEIGHT, hooks: { setCursor: [(own) => setAt(own.cursor.idx ?? null)] } },
      data(starts, until, series, kind),
      element,
    );
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.destroy();
    };
  }, [starts, series, scheme]);
  const start = at === null ? undefined : starts[at];
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <span class="quiet">{start ? fullTime(start) : ""}</span>
      </figcaption>
      <div ref={place} class="plot" aria-hidden="true" />
      <ul class="legend" aria-label={title}>
        {series.map((one) => (
          <li key={one.name}>
            <span class={`swatch ${one.color}`} aria-hidden="true" />
            {one.href ? <a href={one.href}>{one.name}</a> : one.name} <strong>{at === null ? one.total : shown(one.values[at], format)}</strong>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function shown(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? "–" : format(value);
}

/** The center of each part and the values; those of bars are added up, the highest bar first, so that the others cover it. */
function data(starts: readonly string[], until: string, series: readonly Series[], kind: Props["kind"]): uPlot.AlignedData {
  const edges = [...starts, until].map((time) => Date.parse(time) / 1000);
  const centers = starts.map((_, index) => ((edges[index] ?? 0) + (edges[index + 1] ?? 0)) / 2);
  if (kind === "lines") return [centers, ...series.map((one) => [...one.values])];
  const sums = centers.map(() => 0);
  const stacked = series.map((one) => one.values.map((value, index) => (sums[index] = (sums[index] ?? 0) + (value ?? 0))));
  return [centers, ...stacked.reverse()];
}

function options({ starts, until, series, kind, format }: Omit<Props, "title">): Omit<uPlot.Options, "width" | "height"> {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: color("soft"), font: "12px system-ui, sans-serif", grid: { stroke: color("line"), width: 1 }, ticks: { show: false } };
  const drawn = kind === "bars" ? [...series].reverse() : series;
  const bars = Plot?.paths.bars?.({ size: [BAR_SHARE, MAX_BAR] });
  return {
    legend: { show: false },
    cursor: { y: false, points: { show: kind === "lines" }, drag: { x: false, y: false } },
    // At the right so much that the last time is not cut.
    padding: [8, 20, 0, 0],
    scales: {
      x: { range: [Date.parse(starts[0] ?? until) / 1000, Date.parse(until) / 1000] },
      y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 28, values: (_plot, ticks) => ticks.map((tick) => tickTime(tick)) },
      { ...axis, size: 54, values: (_plot, ticks) => ticks.map((tick) => (kind === "bars" && !Number.isInteger(tick) ? "" : format(tick))) },
    ],
    series: [
      {},
      ...drawn.map(
        (one): uPlot.Series =>
          kind === "bars"
            ? { fill: color(one.color), stroke: color(one.color), width: 0, points: { show: false }, ...(bars ? { paths: bars } : {}) }
            : { stroke: color(one.color), width: 2, spanGaps: true, points: { size: 5, fill: color(one.color) } },
      ),
    ],
  };
}

function tickTime(seconds: number): string {
  const date = new Date(seconds * 1000);
  return date.getHours() === 0 && date.getMinutes() === 0 ? day(date) : timeOfDay(date);
}

/** Changes when the color scheme does: a canvas does not follow it by itself. */
function useColorScheme(): boolean {
  const query = window.matchMedia("(prefers-color-scheme: dark)");
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = (): void => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return dark;
}
