// The figures of a time range side by side: those of each model, or of each constitution.
import { useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { getJson } from "../shared/client";
import type { Metrics } from "../shared/client";
import { integer, milliseconds, percent } from "../shared/format";
import { useLoaded } from "../shared/loading";
import { Visible } from "../shared/visible";
import { FiguresTable } from "./figures_table";

/** The filter of the API, and the counts of a summary that have its values. */
const BY = { model: "models", constitution: "constitutions" } as const;
type By = keyof typeof BY;
const TITLES: Readonly<Record<By, string>> = { model: "Model", constitution: "Constitution" };
const SHOWN = 8;
/** Decisions from before the first call of a model have neither, and no filter selects them. */
const NONE = "UNKNOWN";

interface Props {
  readonly whole: Metrics;
  readonly range: string;
}

export function Compare({ whole, range }: Props): VNode {
  const [by, setBy] = useState<By>("model");
  const names = Object.keys(whole[BY[by]]).filter((name) => name !== NONE).slice(0, SHOWN);
  const { value } = useLoaded(async (signal) => (names.length > 1 ? figuresOf(whole, by, names, signal) : []), [whole, by]);
  return (
    <section class="block" aria-label="Comparison">
      <div class="panel-title">
        <h2>Comparison</h2>
        <div class="ranges" role="group" aria-label="Compare by">
          {(Object.keys(BY) as By[]).map((one) => (
            <button key={one} type="button" aria-pressed={one === by} onClick={() => setBy(one)}>
              {TITLES[one]}
            </button>
          ))}
        </div>
      </div>
      {names.length < 2 ? (
        <p class="quiet">
          {names[0] ? (
            <>
              All decisions of this time have the same {by}: <Visible text={shortOf(by, names[0])} />.
            </>
          ) : (
            `No decision of this time has a ${by}.`
          )}
        </p>
      ) : (
        <FiguresTable
          columns={[TITLES[by], "Decisions", "Success", "Calls", "Refused", "Median", "95 %", "Tokens each"]}
          rows={(value ?? []).map(({ by: kind, name, figures }) => ({
            key: name,
            name: (
              <a href={addressOf(`/decisions?${kind}=${encodeURIComponent(name)}&within=${range}`)} title={name}>
                <Visible text={shortOf(kind, name)} />
              </a>
            ),
            figures: [
              integer(figures.total),
              figures.success_rate === null ? "–" : percent(figures.success_rate),
              integer(figures.tool_calls),
              integer(Object.values(figures.tools).reduce((sum, tool) => sum + tool.refused, 0)),
              milliseconds(figures.durations.p50),
              milliseconds(figures.durations.p95),
              figures.tokens.decisions ? integer(Math.round((figures.tokens.total_tokens ?? 0) / figures.tokens.decisions)) : "–",
            ],
          }))}
        />
      )}
    </section>
  );
}

interface Compared {
  /** Rows stay until those that are chosen now are loaded, and lead where they say meanwhile. */
  readonly by: By;
  readonly name: string;
  readonly figures: Metrics;
}

async function figuresOf(whole: Metrics, by: By, names: readonly string[], signal: AbortSignal): Promise<readonly Compared[]> {
  const span = `since=${encodeURIComponent(whole.since ?? "")}&until=${encodeURIComponent(whole.until ?? "")}`;
  const figures = await Promise.all(names.map((name) => getJson<Metrics>(`/api/metrics?${span}&${by}=${encodeURIComponent(name)}`, signal)));
  return figures.map((one, index) => ({ by, name: names[index] ?? "", figures: one }));
}

function shortOf(by: By, name: string): string {
  return by === "constitution" ? name.slice(0, 8) : name;
}
