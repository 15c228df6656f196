// The state machine beside the chat, with the round and the details of a state.
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { StateDetails } from "../machine/details";
import { label } from "../machine/layout";
import { loadTopology, Machine, topology } from "../machine/machine";
import { endingOf } from "../machine/path";
import { Score } from "../machine/score";
import type { Recorded } from "./recorded";
import { isOperator } from "../shared/about";
import { WORDS } from "../shared/meanings";
import { select, selection } from "../shared/router";
import { visible } from "../shared/visible";
import type { ToolProgress } from "./turn";

interface Props extends Recorded {
  readonly running: boolean;
  /** What the running tool has reported. */
  readonly progress: ToolProgress | null;
  /** The decision once it is closed. */
  readonly decisionId: string | null;
  /** Changes with each turn that is shown. */
  readonly turn: string | null;
  /** True if the user has asked for this turn. */
  readonly asked: boolean;
}

export function TurnPanel({ path, ending, running, progress, decisionId, turn, asked }: Props): VNode {
  const [expanded, setExpanded] = useState(false);
  useEffect(() => void loadTopology().catch(() => undefined), []);
  const shown = useRef(turn);
  useEffect(() => {
    // What was selected in another turn is not selected in this one.
    if (shown.current !== null && shown.current !== turn) select(null);
    shown.current = turn;
  }, [turn]);
  const closable = !isOperator();
  useEffect(() => {
    if (asked && closable) setExpanded(true);
  }, [asked]);
  const selected = selection.value;
  const state = topology.value?.states.includes(selected) ? selected : null;
  return (
    <aside class={`panel ${expanded ? "expanded" : ""} ${closable ? "closable" : ""}`} aria-label="Turn" tabindex={0}>
      <button type="button" class="panel-toggle" aria-expanded={expanded} onClick={() => setExpanded(!expanded)}>
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
          ending={endingOf(path, ending?.outcome_category ?? null)}
          running={running}
          selected={state}
          onSelect={(name) => select(name === selected ? null : name)}
        />
        {running && progress && <Report progress={progress} />}
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

/** What the running tool has reported. */
function Report({ progress: { done, total, message } }: { progress: ToolProgress }): VNode {
  return (
    <div class="report">
      <progress max={total ?? 1} {...(total === null ? {} : { value: done })} aria-label="Progress of the tool" />
      <p class="quiet" role="status">
        {label("EXECUTE_TOOLS")}: {total === null ? done : `${done} of ${total}`}
        {message && <>, {visible(message)}</>}
      </p>
    </div>
  );
}
