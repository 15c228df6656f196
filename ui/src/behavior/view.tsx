// Behavior: what the agent decides over time, how long it takes, how it differs from a baseline, and whether the record is intact.
import { useMemo } from "preact/hooks";
import type { ComponentChildren, VNode } from "preact";
import { hasTasks, loadAbout } from "../shared/about";
import { addressOf } from "../shared/address";
import { getJson } from "../shared/client";
import { LATE_MS, serverNow } from "../clock";
import type { Metrics } from "../shared/client";
import { duration, integer, milliseconds, percent, words } from "../shared/format";
import { wordsOf } from "../shared/about";
import { useLoaded } from "../shared/loading";
import { WORDS } from "../shared/meanings";
import { navigate, query } from "../shared/router";
import { Searchable } from "../shared/searchable";
import { ErrorState, Loading } from "../shared/states";
import { Visible } from "../shared/visible";
import { Chart } from "./chart";
import type { Series } from "./chart";
import { Compare } from "./compare";
import { FiguresTable } from "./figures_table";
import { Verification } from "./verification";

const RANGES: Readonly<Record<string, { readonly hours: number; readonly parts: number; readonly label: string }>> = {
  hour: { hours: 1, parts: 20, label: "Hour" },
  day: { hours: 24, parts: 24, label: "Day" },
  week: { hours: 168, parts: 28, label: "Week" },
  month: { hours: 720, parts: 30, label: "Month" },
};
const DEFAULT_RANGE = "day";

/** One color means one outcome; what is not an outcome has the color of the text. */
const CATEGORY_COLORS: Readonly<Record<string, string>> = {
  SUCCESS: "accent",
  AMBIGUITY: "chart-3",
  REFUSAL: "chart-4",
  ERROR: "red",
};
const COUNT = "chart-count";
const SHOWN = 6;

interface Loaded {
  readonly whole: Metrics;
  readonly parts: readonly Metrics[];
}

export function BehaviorView(): VNode {
  const wanted = query.value.get("within") ?? DEFAULT_RANGE;
  const range = wanted in RANGES ? wanted : DEFAULT_RANGE;
  const { value: figures, error, retry } = useLoaded((signal) => load(range, signal), [range]);
  return (
    <main class="behavior" tabindex={0}>
      <header class="view-title">
        <h1>Behavior</h1>
        <div class="ranges" role="group" aria-label="Time range">
          {Object.entries(RANGES).map(([name, { label }]) => (
            <button key={name} type="button" aria-pressed={name === range} onClick={() => navigate(`/behavior?within=${name}`)}>
              {label}
            </button>
          ))}
        </div>
      </header>
      {error ? (
        <ErrorState error={error} retry={retry} />
      ) : !figures ? (
        <Loading what="the figures" />
      ) : (
        <Figures {...figures} range={range} />
      )}
      {/* Below the figures, so not before they are there: it would move. */}
      {(figures || error) && (
        <Verification />
      )}
    </main>
  );
}

async function load(range: string, signal: AbortSignal): Promise<Loaded> {
  // Its answer also says what time it is on the server.
  await loadAbout();
  const { hours, parts } = RANGES[range] ?? { hours: 24, parts: 24 };
  // With the decision that was made a moment ago, also if it is later than this browser knows.
  const until = new Date(serverNow() + LATE_MS);
  const since = new Date(until.getTime() - hours * 3_600_000);
  const span = `since=${since.toISOString()}&until=${until.toISOString()}`;
  const [whole, timeline] = await Promise.all([
    getJson<Metrics>(`/api/metrics?${span}`, signal),
    getJson<readonly Metrics[]>(`/api/metrics/timeline?${span}&parts=${parts}`, signal),
  ]);
  return { whole, parts: timeline };
}

function Figures({ whole, parts, range }: Loaded & { readonly range: string }): VNode {
  const starts = useMemo(() => parts.map((part) => part.since ?? ""), [parts]);
  const outcomes = useMemo(() => mix(whole, parts, (one) => one.categories, (name) => CATEGORY_COLORS[name], (name) => `/decisions?outcome=${name}&within=${range}`), [parts]);
  const types = useMemo(() => mix(whole, parts, (one) => one.decision_types), [parts]);
  const intents = useMemo(() => mix(whole, parts, (one) => one.intents), [parts]);
  const latency = useMemo(() => percentiles(whole, parts), [parts]);
  const refused = Object.values(whole.tools).reduce((sum, tool) => sum + tool.refused, 0);
  const shared = { starts };
  if (whole.total === 0) return <p class="state-text">No decision in this time. Choose a longer one, or write something in the chat.</p>;
  return (
    <>
      <dl class="tiles">
        <Tile name="Decisions" value={integer(whole.total)} note={whole.open > 0 ? `${whole.open} open` : ""} />
        <Tile name="Success" value={whole.success_rate === null ? "–" : percent(whole.success_rate)} note="" />
        <Tile name="Median" value={milliseconds(whole.durations.p50)} note={`95 %: ${milliseconds(whole.durations.p95)}`} />
        <Tile
          name="Tool calls"
          value={integer(whole.tool_calls)}
          note={refused > 0 ? <a href={addressOf(`/decisions?refused=true&within=${range}`)}>{integer(refused)} refused</a> : "none refused"}
        />
        <Tile
          name="Tokens"
          value={whole.tokens.decisions ? compact(whole.tokens.total_tokens ?? 0) : "–"}
          note={whole.tokens.decisions ? `${compact(whole.tokens.prompt_tokens ?? 0)} in` : "none reported"}
        />
      </dl>
      <div class="charts">
        <Chart title="Outcomes" kind="bars" series={outcomes} format={integer} {...shared} />
        <Chart title="Time per decision" kind="lines" series={latency} format={duration} {...shared} />
        <Chart title="Decision types" kind="rows" series={types} format={integer} {...shared} />
        {hasTasks() && <Chart title="Intents" kind="rows" series={intents} format={integer} {...shared} />}
      </div>
      <Tools whole={whole} />
      <InShadow rules={whole.shadow} />
      <Compare whole={whole} range={range} />
    </>
  );
}

function Tile({ name, value, note }: { name: string; value: string; note: ComponentChildren }): VNode {
  return (
    <div class="tile">
      <dt>{name}</dt>
      <dd>
        <strong>{value}</strong>
        <span class="quiet">{note}</span>
      </dd>
    </div>
  );
}

/** One series for each name, the most frequent first; the last ones are shown together. */
function mix(
  whole: Metrics,
  parts: readonly Metrics[],
  counts: (one: Metrics) => Readonly<Record<string, number>>,
  color?: (name: string) => string | undefined,
  href?: (name: string) => string,
): Series[] {
  const names = Object.keys(counts(whole));
  const own = names.length > SHOWN ? names.slice(0, SHOWN - 1) : names;
  const rest = names.slice(own.length);
  const sum = (one: Metrics, wanted: readonly string[]): number => wanted.reduce((total, name) => total + (counts(one)[name] ?? 0), 0);
  const groups: [string, readonly string[]][] = own.map((name) => [wordsOf(name), [name]]);
  if (rest.length > 0) groups.push([`${rest.length} others`, rest]);
  return groups.map(([name, wanted]) => ({
    name,
    color: color?.(wanted[0] ?? "") ?? COUNT,
    values: parts.map((part) => sum(part, wanted)),
    total: integer(sum(whole, wanted)),
    ...(href && { href: href(wanted[0] ?? "") }),
  }));
}

function percentiles(whole: Metrics, parts: readonly Metrics[]): Series[] {
  const kinds = [
    ["99 %", "p99", "time-99"],
    ["95 %", "p95", "time-95"],
    ["median", "p50", "time-50"],
  ] as const;
  return kinds.map(([name, field, color]) => ({
    name,
    color,
    values: parts.map((part) => part.durations[field] ?? null),
    total: milliseconds(whole.durations[field]),
  }));
}

function Tools({ whole }: { whole: Metrics }): VNode | null {
  const tools = Object.entries(whole.tools);
  if (tools.length === 0) return null;
  return (
    <section class="block">
      <h2>Tools</h2>
      <Searchable label="Search the tools" items={tools} textOf={([name]) => name}>
        {(found) => (
      <FiguresTable
        columns={["Tool", "Calls", "Sent", "Refused", "Succeeded", "Unknown", "Median", "95 %", "Errors"]}
        rows={found.map(([name, tool]) => ({
          key: name,
          name: (
            <code>
              <Visible text={name} />
            </code>
          ),
          figures: [
            integer(tool.calls),
            integer(tool.executed),
            integer(tool.refused),
            tool.success_rate === null ? "–" : percent(tool.success_rate),
            integer(tool.unknown),
            milliseconds(tool.durations.p50),
            milliseconds(tool.durations.p95),
            Object.entries(tool.errors)
              .map(([code, times]) => `${words(code)} ${times}`)
              .join(", ") || "none",
          ],
        }))}
      />
        )}
      </Searchable>
    </section>
  );
}

/** What rules in the shadow would have done with the calls of this time. */
function InShadow({ rules }: { rules: Metrics["shadow"] }): VNode | null {
  const found = Object.entries(rules);
  if (found.length === 0) return null;
  return (
    <section class="block">
      <h2 title={WORDS["Shadow"]}>Rules in the shadow</h2>
      <FiguresTable
        columns={["Rule", "Would have refused", "Asked the user", "Asked other people"]}
        rows={found.map(([name, one]) => ({
          key: name,
          name: <Visible text={name} />,
          figures: [integer(one.refused), integer(one.asked), integer(one.waited)],
        }))}
      />
    </section>
  );
}

function compact(value: number): string {
  return value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
}
