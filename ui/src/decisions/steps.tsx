// The path of a decision, step by step: forwards and backwards, or by itself. The step and what is selected are in the address.
import { useEffect, useState } from "preact/hooks";
import type { ComponentChildren, VNode } from "preact";
import { StateDetails } from "../machine/details";
import { label } from "../machine/layout";
import { Machine, topology } from "../machine/machine";
import { endingOf } from "../machine/path";
import type { Visit } from "../machine/path";
import { Player } from "../machine/player";
import { Score } from "../machine/score";
import { isOperator } from "../shared/about";
import { kindOf } from "../shared/about";
import { WORDS } from "../shared/meanings";
import { navigate, path, query, select, selection } from "../shared/router";

interface Props {
  readonly visits: readonly Visit[];
  readonly outcome: string | null;
  /** Null while the turn runs. */
  readonly decisionId: string | null;
  /** What is shown without a visit. */
  readonly nothing: string;
}

export function Steps({ visits, outcome, decisionId, nothing }: Props): VNode {
  const [playing, setPlaying] = useState(false);
  const wanted = Number(query.value.get("step"));
  const step = wanted >= 1 && wanted < visits.length ? Math.floor(wanted) : visits.length;
  const selected = selection.value;
  const state = topology.value?.states.includes(selected) ? selected : null;
  useEffect(() => setPlaying(false), [decisionId]);

  if (visits.length === 0) {
    return (
      <section class="steps">
        <h2>Steps</h2>
        <p class="quiet">{nothing}</p>
      </section>
    );
  }
  const goTo = (next: number): void => {
    const asked = new URLSearchParams(query.value);
    if (next < visits.length) asked.set("step", String(next));
    else asked.delete("step");
    navigate(`${path.value}${asked.size > 0 ? `?${asked}` : ""}${window.location.hash}`, true);
  };
  const current = visits[step - 1];
  const runs = decisionId === null;
  return (
    <section class="steps">
      <div class="panel-title">
        <h2>Steps</h2>
        <span class="progress-text" title={WORDS["Round"]}>
          {step} of {visits.length}
          {current && ` · round ${current.round}${current.cap === null ? "" : ` of ${current.cap}`}`}
        </span>
      </div>
      <Fold>
        <Machine
          visits={visits.slice(0, step)}
          ending={endingOf(visits.slice(0, step), step < visits.length ? null : kindOf(outcome))}
          running={step < visits.length || runs}
          selected={state}
          onSelect={(name) => select(name === selected ? null : name)}
        />
      </Fold>
      <Player
        steps={visits.length}
        step={step}
        text={current ? label(current.state) : ""}
        playing={playing}
        onPlay={setPlaying}
        onStep={goTo}
      />
      {state && <StateDetails state={state} visits={visits} decisionId={decisionId} />}
      <Score visits={visits} running={runs && step === visits.length} reached={step} selected={selected} onSelect={select} />
    </section>
  );
}

/** The picture is closed at first for users who do not operate the server. */
function Fold({ children }: { children: ComponentChildren }): VNode {
  return isOperator() ? (
    <>{children}</>
  ) : (
    <details class="fold">
      <summary>The states of the turn</summary>
      {children}
    </details>
  );
}
