// The comparison of later decisions with a baseline: every figure then and now, and how likely chance explains the difference.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson } from "../shared/client";
import type { BaselinePage, Comparison, DriftReport, GroupDrift } from "../shared/client";
import { duration, integer, shortTime, words } from "../shared/format";
import { WORDS } from "../shared/meanings";
import { Visible } from "../shared/text";
import { FiguresTable } from "./figures_table";

const SHOWN = 12;

export function DriftSection(): VNode {
  const [baselines, setBaselines] = useState<BaselinePage | null>(null);
  const [name, setName] = useState<string | null>(null);
  const [report, setReport] = useState<DriftReport | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const failed = (failure: unknown): void => {
    if (failure instanceof ApiError) setProblem(failure.message);
  };
  useEffect(() => {
    const abort = new AbortController();
    getJson<BaselinePage>("/api/baselines?limit=200", abort.signal)
      .then((page) => {
        setBaselines(page);
        setName(page.items[0]?.name ?? null);
      })
      .catch(failed);
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
        <p class="quiet">
          No baseline yet. <code>graph-agent baseline create NAME</code> stores how the agent behaves now; later decisions are then
          compared with it here.
        </p>
      ) : report ? (
        <Report report={report} />
      ) : (
        <p class="quiet">Comparing…</p>
      )}
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
        Flagged beyond {percent(report.threshold)} and p &lt; {report.alpha ?? 0.05}, corrected for {report.tests} comparisons (Holm).
      </p>
    </>
  );
}

function Group({ group }: { group: GroupDrift }): VNode {
  const sorted = [...group.comparisons].sort(
    (one, other) => Number(other.flagged) - Number(one.flagged) || Math.abs(other.deviation) - Math.abs(one.deviation),
  );
  return (
    <FiguresTable
      caption={
        <>
          <Visible text={group.model} />, constitution {group.constitution.slice(0, 8)}: {group.baseline_decisions} decisions then,{" "}
          {group.decisions} now
        </>
      }
      columns={["Figure", "Then", "Now", "p"]}
      rows={sorted.slice(0, SHOWN).map((one) => ({
        key: `${one.dimension} ${one.name}`,
        name: (
          <>
            <Visible text={figure(one)} />
            {one.flagged && <span class="mark">drift</span>}
          </>
        ),
        figures: [
          one.name === "*" ? "" : value(one, one.baseline),
          value(one, one.current),
          one.p_value < 0.001 ? "< 0.001" : one.p_value.toFixed(3),
        ],
        different: one.flagged,
      }))}
    />
  );
}

function figure(one: Comparison): string {
  return one.name === "*" ? `${words(one.dimension)}, moved in all` : `${words(one.dimension)}: ${words(one.name)}`;
}

function value(one: Comparison, of: number): string {
  if (one.dimension === "latency") return duration(of);
  return one.dimension === "tool_frequency" ? of.toFixed(2) : percent(of);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
