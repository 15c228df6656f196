// The state machine beside the chat, with the round and the details of a state: closed until the user opens it.
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { StateDetails } from "../machine/details";
import { label } from "../machine/layout";
import { loadTopology, Machine, topology } from "../machine/machine";
import { endingOf } from "../machine/path";
import { Score } from "../machine/score";
import type { Recorded } from "./recorded";
import { kindOf } from "../shared/about";
import { ownName } from "../shared/address";
import { WORDS } from "../shared/meanings";
import { select, selection } from "../shared/router";

interface Props extends Recorded {
  readonly running: boolean;
  /** The decision once it is closed. */
  readonly decisionId: string | null;
  /** Changes with each turn that is shown. */
  readonly turn: string | null;
  /** True if the user has asked for this turn. */
  readonly asked: boolean;
}

const OPENED = ownName("turn-panel");

export function TurnPanel({ path, ending, running, decisionId, turn, asked }: Props): VNode {
  const [expanded, setExpanded] = useState(() => localStorage.getItem(OPENED) !== null);
  const toggle = (): void => {
    setExpanded(!expanded);
    if (expanded) localStorage.removeItem(OPENED);
    else localStorage.setItem(OPENED, "");
  };
  useEffect(() => void loadTopology().catch(() => undefined), []);
  const shown = useRef(turn);
  useEffect(() => {
    // What was selected in another turn is not selected in this one.
    if (shown.current !== null && shown.current !== turn) select(null);
    shown.current = turn;
  }, [turn]);
  useEffect(() => {
    if (asked) setExpanded(true);
  }, [asked]);
  const selected = selection.value;
  const state = topology.value?.states.includes(selected) ? selected : null;
  return (
    <aside class={`panel ${expanded ? "expanded" : ""}`} aria-label="Turn" tabindex={0}>
      <button type="button" class="panel-toggle" aria-expanded={expanded} onClick={toggle}>
        <Progress path={path} running={running} ending={ending} />
        <span class="toggle-name">Turn</span>
      </button>
      <div class="panel-body">
        <div class="panel-title">
          <h2>Turn</h2>
          <Progress path={path} running={running} ending={ending} />
        </div>
        <Machine
          visits={path}
          ending={endingOf(path, kindOf(ending?.outcome_category))}
          running={running}
          selected={state}
          onSelect={(name) => select(name === selected ? null : name)}
        />
        {state && <StateDetails state={state} visits={path} decisionId={decisionId} />}
        {path.length === 0 && (
          <p class="quiet hint">{topology.value ? "A message runs through these states." : "Loading the state machine…"}</p>
        )}
        <Score visits={path} running={running} reached={path.length} selected={selected} onSelect={select} />
      </div>
    </aside>
  );
}

function Progress({ path, running, ending }: Recorded & { running: boolean }): VNode {
  const last = path.at(-1);
  if (!last) return <span class="progress-text">{running ? "starting" : "no turn yet"}</span>;
  return (
    <span class={`progress-text ${running ? "live" : ""}`} role="status" title={WORDS["Round"]}>
      {running ? `${label(last.state)} · ` : ending?.ending ? `${ending.ending} · ` : ""}
      round {last.round}
      {last.cap !== null && ` of ${last.cap}`}
    </span>
  );
}
