// The states of a recorded turn, replayed on the picture: by a slider, by the list, or by itself.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { StateDetails } from "../machine/details";
import { label } from "../machine/layout";
import { Machine } from "../machine/machine";
import { endingOf } from "../machine/path";
import type { Visit } from "../machine/path";
import { WORDS } from "../shared/meanings";

const STEP_MS = 450;

interface Props {
  readonly visits: readonly Visit[];
  readonly outcome: string | null;
  /** Null while the turn runs. */
  readonly decisionId: string | null;
  /** What is shown without a visit. */
  readonly nothing: string;
}

export function Steps({ visits, outcome, decisionId, nothing }: Props): VNode {
  const [step, setStep] = useState(0);
  const [playing, setPlaying] = useState(false);
  const [selected, setSelected] = useState<string | null>(null);
  useEffect(() => setStep(visits.length), [visits.length]);
  useEffect(() => {
    if (!playing) return undefined;
    if (step >= visits.length) {
      setPlaying(false);
      return undefined;
    }
    const timer = window.setTimeout(() => setStep(step + 1), STEP_MS);
    return () => window.clearTimeout(timer);
  }, [playing, step, visits.length]);

  if (visits.length === 0) {
    return (
      <section class="steps">
        <h2>Steps</h2>
        <p class="quiet">{nothing}</p>
      </section>
    );
  }
  const current = visits[Math.max(0, step - 1)];
  return (
    <section class="steps">
      <div class="panel-title">
        <h2>Steps</h2>
        <span class="progress-text" title={WORDS["Round"]}>
          {step} of {visits.length}
          {current && ` · round ${current.iteration} of ${current.cap}`}
        </span>
      </div>
      <Machine
        visits={visits.slice(0, step)}
        ending={endingOf(visits.slice(0, step), step < visits.length ? null : outcome)}
        running={step < visits.length || decisionId === null}
        selected={selected}
        onSelect={(state) => setSelected(state === selected ? null : state)}
      />
      <div class="player">
        <button
          type="button"
          onClick={() => {
            if (!playing && step >= visits.length) setStep(1);
            setPlaying(!playing);
          }}
        >
          {playing ? "Pause" : "Play"}
        </button>
        <input
          type="range"
          min={1}
          max={visits.length}
          value={step}
          aria-label="Step"
          aria-valuetext={current ? `${step}: ${label(current.state)}` : ""}
          onInput={(event) => {
            setPlaying(false);
            setStep(Number(event.currentTarget.value));
          }}
        />
      </div>
      {selected ? (
        <StateDetails state={selected} visits={visits} decisionId={decisionId} />
      ) : (
        <ol class="step-list">
          {visits.map((visit, index) => (
            <li key={index} class={index < step ? "done" : ""}>
              <button type="button" onClick={() => setStep(index + 1)} {...(index === step - 1 ? { "aria-current": "step" as const } : {})}>
                <span class="number">{index + 1}</span> {label(visit.state)}
              </button>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
