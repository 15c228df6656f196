// The state machine beside the chat, with the round and the details of a state.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { StateDetails } from "../machine/details";
import { label } from "../machine/layout";
import { loadTopology, Machine, topology } from "../machine/machine";
import { endingOf } from "../machine/path";
import type { Recorded } from "./recorded";
import { outcomeWords } from "../shared/format";
import { WORDS } from "../shared/meanings";
import { visible } from "../shared/text";
import type { ToolProgress } from "./turn";

interface Props extends Recorded {
  readonly running: boolean;
  /** What the running tool has reported. */
  readonly progress: ToolProgress | null;
  /** The decision once it is closed. */
  readonly decisionId: string | null;
  /** Changes with each turn that is shown. */
  readonly turn: string | null;
}

export function TurnPanel({ path, outcome, type, running, progress, decisionId, turn }: Props): VNode {
  const [selected, setSelected] = useState<string | null>(null);
  const [expanded, setExpanded] = useState(false);
  useEffect(() => void loadTopology().catch(() => undefined), []);
  useEffect(() => setSelected(null), [turn]);
  return (
    <aside class={`panel ${expanded ? "expanded" : ""}`} aria-label="Turn" tabindex={0}>
      <button type="button" class="panel-toggle" aria-expanded={expanded} onClick={() => setExpanded(!expanded)}>
        <Progress path={path} running={running} outcome={outcome} type={type} />
      </button>
      <div class="panel-body">
        <div class="panel-title">
          <h2>Turn</h2>
          <Progress path={path} running={running} outcome={outcome} type={type} />
        </div>
        <Machine
          visits={path}
          ending={endingOf(path, outcome)}
          running={running}
          selected={selected}
          onSelect={(state) => setSelected(state === selected ? null : state)}
        />
        {running && progress && <Report progress={progress} />}
        {selected ? (
          <StateDetails state={selected} visits={path} decisionId={decisionId} />
        ) : (
          <p class="quiet hint">
            {!topology.value
              ? "Loading the state machine…"
              : path.length > 0
                ? "Select a state to see what was done there."
                : "A message runs through these states."}
          </p>
        )}
      </div>
    </aside>
  );
}

function Progress({ path, running, outcome, type }: Recorded & { running: boolean }): VNode {
  const last = path.at(-1);
  if (!last) return <span class="progress-text">{running ? "starting" : "no turn yet"}</span>;
  return (
    <span class={`progress-text ${running ? "live" : ""}`} role="status" title={WORDS["Round"]}>
      {running ? `${label(last.state)} · ` : outcome ? `${outcomeWords(outcome, type)} · ` : ""}
      round {last.iteration} of {last.cap}
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
