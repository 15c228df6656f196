// Drift: a baseline is created, and later decisions are compared with it: every figure then and now, and whether chance explains it.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson, post, request } from "../shared/client";
import type { BaselinePage, Comparison, DriftReport, GroupDrift } from "../shared/client";
import { serverNow } from "../clock";
import { duration, integer, shortTime, peopleWords, words } from "../shared/format";
import { WORDS } from "../shared/meanings";
import { Visible } from "../shared/visible";
import { FiguresTable } from "./figures_table";

const SHOWN = 10;

export function DriftSection(): VNode {
  const [baselines, setBaselines] = useState<BaselinePage | null>(null);
  const [name, setName] = useState<string | null>(null);
  const [report, setReport] = useState<DriftReport | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const failed = (failure: unknown): void => {
    if (failure instanceof ApiError) setProblem(failure.message);
  };
  const load = (signal?: AbortSignal): void => {
    getJson<BaselinePage>("/api/baselines?limit=200", signal)
      .then((page) => {
        setBaselines(page);
        setName(page.items[0]?.name ?? null);
      })
      .catch(failed);
  };
  useEffect(() => {
    const abort = new AbortController();
    load(abort.signal);
    return () => abort.abort();
  }, []);
  useEffect(() => {
    if (name === null) return undefined;
    const abort = new AbortController();
    setReport(null);
    setProblem(null);
    getJson<DriftReport>(`/api/drift?baseline=${encodeURIComponent(name)}`, abort.signal).then(setReport).catch(failed);
    return () => abort.abort();
  }, [name]);
  return (
    <section class="block panel-block" aria-label="Drift">
      <div class="panel-title">
        <h2 title={WORDS["Drift"]}>Drift</h2>
        {baselines && baselines.items.length > 0 && (
          <label class="inline">
            since baseline
            <select value={name ?? ""} onChange={(event) => setName(event.currentTarget.value)}>
              {baselines.items.map((one) => (
                <option key={one.baseline_id} value={one.name}>
                  {one.name} ({one.decisions})
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {problem ? (
        <p class="quiet">{problem}</p>
      ) : baselines && baselines.items.length === 0 ? (
        <p class="quiet">No baseline yet. It stores how the agent behaved until a time; later decisions are then compared with it.</p>
      ) : report ? (
        <Report report={report} />
      ) : (
        <p class="quiet">Comparing…</p>
      )}
      {baselines && <NewBaseline onCreated={load} />}
    </section>
  );
}

function Report({ report }: { report: DriftReport }): VNode {
  return (
    <>
      <p class={`verdict-line ${report.drift_detected ? "different" : "same"}`} role="status">
        {report.drift_detected ? "Drift" : "No drift"} in {integer(report.decisions)} decisions
        {report.since && ` since ${shortTime(report.since)}`}.
      </p>
      {report.groups.map((group) => (
        <Group key={`${group.model} ${group.constitution}`} group={group} />
      ))}
      {report.uncompared.map((group) => (
        <p key={`${group.model} ${group.constitution}`} class="quiet">
          Not compared: <Visible text={group.model} />, constitution {group.constitution.slice(0, 8)}, {group.decisions} decisions:{" "}
          {group.reason}.
        </p>
      ))}
      <p class="quiet">
        Flagged beyond {percent(report.threshold)} and p &lt; {report.alpha ?? 0.05} divided by {report.tests} comparisons.
      </p>
    </>
  );
}

const UNTIL: Readonly<Record<string, number>> = { "until now": 0, "until an hour ago": 1, "until a day ago": 24, "until a week ago": 168 };
const HOUR_MS = 3_600_000;

function NewBaseline({ onCreated }: { onCreated: () => void }): VNode {
  const [name, setName] = useState("");
  const [until, setUntil] = useState("until a day ago");
  const [problem, setProblem] = useState<string | null>(null);
  const create = async (): Promise<void> => {
    setProblem(null);
    const end = new Date(serverNow() - (UNTIL[until] ?? 0) * HOUR_MS).toISOString();
    try {
      await request("/api/baselines", post({ name: name.trim(), until: end }));
      setName("");
      onCreated();
    } catch (failure) {
      if (failure instanceof ApiError) setProblem(failure.message);
    }
  };
  return (
    <form
      class="new-baseline"
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim()) void create();
      }}
    >
      <label class="inline">
        New baseline
        <input type="text" maxLength={255} placeholder="its name" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="inline">
        <span class="visually-hidden">Its decisions</span>
        <select value={until} onChange={(event) => setUntil(event.currentTarget.value)}>
          {Object.keys(UNTIL).map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
      <button type="submit" disabled={!name.trim()}>
        Create
      </button>
      {problem && (
        <p class="failure" role="alert">
          <Visible text={problem} />
        </p>
      )}
    </form>
  );
}

/** Figures that are the same fact: one in each dimension, with equal values. */
interface Fact {
  readonly names: readonly string[];
  readonly one: Comparison;
}

function factsOf(comparisons: readonly Comparison[]): Fact[] {
  const found = new Map<string, Fact>();
  for (const one of comparisons) {
    const key = one.dimension === "latency" ? one.name : `${one.baseline.toFixed(4)} ${one.current.toFixed(4)}`;
    const known = found.get(key);
    const own = nameOf(one);
    if (!known) found.set(key, { names: [own], one });
    else found.set(key, { names: known.names.includes(own) ? known.names : [...known.names, own], one: shownOf(known.one, one) });
  }
  return [...found.values()].sort(
    ({ one }, { one: other }) => Number(other.flagged) - Number(one.flagged) || Math.abs(other.deviation) - Math.abs(one.deviation),
  );
}

/** The one that is shown: what drifts, else a kind of decision rather than a tool. */
function shownOf(known: Comparison, other: Comparison): Comparison {
  if (known.flagged !== other.flagged) return known.flagged ? known : other;
  return known.dimension === "tools" ? other : known;
}

function nameOf({ dimension, name }: Comparison): string {
  return dimension === "latency" ? `latency: ${words(name).replace(/ ms$/, "")}` : dimension === "tools" ? `tool ${name}` : peopleWords(name);
}

function Group({ group }: { group: GroupDrift }): VNode {
  return (
    <FiguresTable
      caption={
        <>
          <Visible text={group.model} />, constitution {group.constitution.slice(0, 8)}: {group.baseline_decisions} decisions then,{" "}
          {group.decisions} now
        </>
      }
      columns={["Figure", "Then", "Now", "p"]}
      rows={factsOf(group.comparisons).slice(0, SHOWN).map(({ names, one }) => ({
        key: `${one.dimension} ${one.name}`,
        name: (
          <>
            <Visible text={names.join(" · ")} />
            {one.flagged && <span class="mark">drift</span>}
          </>
        ),
        figures: [
          value(one, one.baseline),
          value(one, one.current),
          one.p_value < 0.001 ? "< 0.001" : one.p_value.toFixed(3),
        ],
        different: one.flagged,
      }))}
    />
  );
}

function value(one: Comparison, of: number): string {
  return one.dimension === "latency" ? duration(of) : percent(of);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
