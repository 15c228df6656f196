// The last decisions under the tried rules: a sentence, the diagram, and the decisions of a band.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { request } from "../shared/client";
import { download } from "../shared/download";
import { counted, integer } from "../shared/format";
import { Visible } from "../shared/visible";
import { cancelFlows, flows, isChange, runFlows } from "./flows";
import type { Band, Flows } from "./flows";
import { FlowDiagram, same } from "./flow_diagram";
import { isEdited, tried } from "./texts";
import { TrialOfShadow } from "./trial";

const NUMBERS = [20, 100, 500, 2000, 10_000];
const DEFAULT_LAST = 100;
/** So many cases a test set has at most. */
const CASES = 50;

export function FlowPanel(): VNode {
  const [last, setLast] = useState(flows.value?.last ?? DEFAULT_LAST);
  const [selected, setSelected] = useState<Band | null>(null);
  const current = flows.value;
  const wanted = tried.value;
  useEffect(() => {
    if (!wanted || (current?.edit === wanted && current.last === last && current.state !== "cancelled")) return;
    void runFlows(last, wanted);
  }, [wanted, last]);
  const band = (selected && current?.bands.find((one) => same(one, selected))) ?? null;
  return (
    <section class="block panel-block recorded" aria-label="Recorded decisions">
      <div class="panel-title">
        <h2>Recorded decisions</h2>
        <label class="inline">
          the last
          <select value={last} onChange={(event) => setLast(Number(event.currentTarget.value))}>
            {NUMBERS.map((number) => (
              <option key={number} value={number}>
                {integer(number)}
              </option>
            ))}
          </select>
        </label>
        {current?.state === "running" ? (
          <button type="button" onClick={cancelFlows}>
            Cancel
          </button>
        ) : (
          current?.state === "cancelled" && (
            <button type="button" onClick={() => wanted && void runFlows(last, wanted)}>
              Run again
            </button>
          )
        )}
      </div>
      {current && <Result current={current} selected={band} onSelect={(one) => setSelected(band && same(band, one) ? null : one)} />}
      {current && current.done > 0 && isEdited() && <TestSet current={current} band={band} />}
    </section>
  );
}

interface ResultProps {
  readonly current: Flows;
  readonly selected: Band | null;
  readonly onSelect: (band: Band) => void;
}

function Result({ current, selected, onSelect }: ResultProps): VNode {
  const { bands, done, total, state, failure } = current;
  if (state === "ended" && done === 0 && !failure) return <p class="quiet">No decision yet. Each message in the chat makes one.</p>;
  const changes = bands.filter(isChange);
  const stay = bands.filter((band) => !isChange(band));
  return (
    <>
      <progress max={total ?? 1} value={done} aria-label="Replayed decisions" aria-hidden={state !== "running"} />
      {failure && <p class="failure">{failure}</p>}
      <p class="flow-sentence" role="status">
        <Sentence current={current} />
      </p>
      <FlowDiagram bands={bands} selected={selected} onSelect={onSelect} />
      {changes.length > 0 && <p class="quiet">A decision counts by its first call that is decided otherwise.</p>}
      <ul class="bands" aria-label="Flows">
        {[...changes, ...stay].map((band) => (
          <li key={`${band.before} ${band.after}`}>
            <button type="button" aria-pressed={selected !== null && same(selected, band)} onClick={() => onSelect(band)}>
              <span class={`swatch ${isChange(band) ? `fate-${band.after.replace(" ", "-")}` : "fate-same"}`} aria-hidden="true" />
              {isChange(band) ? `${band.before} → ${band.after}` : `same: ${band.before}`} <strong>{integer(band.count)}</strong>
            </button>
          </li>
        ))}
      </ul>
      {selected && <Decisions band={selected} />}
      <TrialOfShadow current={current} />
    </>
  );
}

/** "runs → asks: 25, → refused: 50, same: 425" */
export function Sentence({ current: { bands, done, total, state } }: { current: Flows }): VNode {
  const changes = bands.filter(isChange);
  const changed = changes.reduce((sum, band) => sum + band.count, 0);
  return (
    <>
      {state === "running" && `${integer(done)} of ${total === null ? "…" : integer(total)} · `}
      {state === "cancelled" && `Cancelled after ${integer(done)} of ${total === null ? "…" : integer(total)} · `}
      {changes.map((band, index) => (
        <span key={`${band.before} ${band.after}`}>
          {changes[index - 1]?.before === band.before ? "" : `${band.before} `}→ {band.after}: <strong>{integer(band.count)}</strong>,{" "}
        </span>
      ))}
      same: <strong>{integer(done - changed)}</strong>
    </>
  );
}

function Decisions({ band }: { band: Band }): VNode {
  return (
    <>
      <ol class="rows band-decisions">
        {band.items.map((item) => (
          <li key={item.decision_id}>
            <a class="row what-if" href={addressOf(`/lab/${item.decision_id}`)}>
              <span class="row-text">
                <Visible text={item.message} />
              </span>
              {item.tool_name && (
                <span class={`verdict ${item.after === "refused" ? "refused" : "awaiting"}`}>
                  {item.after}: <Visible text={item.tool_name} />
                </span>
              )}
              {item.why && (
                <span class="quiet">
                  <Visible text={item.why} />
                </span>
              )}
            </a>
          </li>
        ))}
      </ol>
      {band.count > band.items.length && <p class="quiet">The newest {band.items.length} are shown.</p>}
    </>
  );
}

function TestSet({ current, band }: { current: Flows; band: Band | null }): VNode {
  const [said, setSaid] = useState("");
  const bands = band ? [band] : current.bands.filter(isChange);
  const items = bands.flatMap((one) => one.items).slice(0, CASES);
  const save = async (): Promise<void> => {
    setSaid("Collecting…");
    const cases: string[] = [];
    for (const { decision_id } of items) cases.push(await (await request(`/api/decisions/${decision_id}/fixture`, {})).text());
    const head = "# Decisions as they were recorded. `graph-agent validate FILE --constitution NEW.md` shows which of them other rules change.\n";
    download("test-set.yaml", "application/yaml", head + cases.join(""));
    setSaid(`Saved ${counted(cases.length, "case")}.`);
  };
  return (
    <p class="test-set">
      <button type="button" disabled={items.length === 0} onClick={() => void save().catch((error: Error) => setSaid(error.message))}>
        Save as test set
      </button>
      <span class="quiet" role="status">
        {said || `${counted(items.length, "decision")}${band ? " of this flow" : " that change"}`}
      </span>
    </p>
  );
}
