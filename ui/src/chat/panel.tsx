// The state machine beside the chat, with the round and the details of a state.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { StateDetails } from "../machine/details";
import { label } from "../machine/layout";
import { loadTopology, Machine, topology } from "../machine/machine";
import { visitsOf } from "../machine/path";
import type { Visit } from "../machine/path";
import { events } from "../shared/events";
import type { ServerEvent } from "../shared/events";
import { words } from "../shared/format";
import { WORDS } from "../shared/meanings";
import { visible } from "../shared/text";
import { visits } from "./turn";
import type { ToolProgress, Turn } from "./turn";

interface Props {
  /** The turn of this conversation that this tab has sent, if any. */
  readonly turn: Turn | null;
  readonly running: boolean;
  /** The latest decision of the conversation: without a turn its recorded path is shown. */
  readonly latest: string | null;
}

export function TurnPanel({ turn, running, latest }: Props): VNode {
  const [selected, setSelected] = useState<string | null>(null);
  const [expanded, setExpanded] = useState(false);
  const recorded = useRecordedPath(turn ? null : latest);
  useEffect(() => void loadTopology().catch(() => undefined), []);
  useEffect(() => setSelected(null), [turn?.key ?? latest]);
  const path = turn ? visits.value : recorded;
  return (
    <aside class={`panel ${expanded ? "expanded" : ""}`} aria-label="Turn">
      <button type="button" class="panel-toggle" aria-expanded={expanded} onClick={() => setExpanded(!expanded)}>
        <Progress path={path} running={running} turn={turn} />
      </button>
      <div class="panel-body">
        <div class="panel-title">
          <h2>Turn</h2>
          <Progress path={path} running={running} turn={turn} />
        </div>
        <Machine
          visits={path}
          running={running}
          selected={selected}
          onSelect={(state) => setSelected(state === selected ? null : state)}
        />
        {running && turn?.progress && <Report progress={turn.progress} />}
        {selected ? (
          <StateDetails state={selected} visits={path} decisionId={turn ? (turn.reply?.decision_id ?? null) : latest} />
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

function Progress({ path, running, turn }: { path: readonly Visit[]; running: boolean; turn: Turn | null }): VNode {
  const last = path.at(-1);
  if (!last) return <span class="progress-text">{running ? "starting" : "no turn yet"}</span>;
  const outcome = turn?.reply?.decision.outcome_category;
  return (
    <span class={`progress-text ${running ? "live" : ""}`} role="status" title={WORDS["Round"]}>
      {running ? `${label(last.state)} · ` : outcome ? `${words(outcome)} · ` : ""}
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

/** The visits of a decision, from its record; empty until they are known. */
function useRecordedPath(decisionId: string | null): readonly Visit[] {
  const [path, setPath] = useState<readonly Visit[]>([]);
  useEffect(() => {
    setPath([]);
    if (decisionId === null) return undefined;
    const abort = new AbortController();
    const read = async (): Promise<void> => {
      const received: ServerEvent[] = [];
      for await (const event of events(`/api/decisions/${decisionId}/events`, { signal: abort.signal })) {
        received.push({ ...event, at: null });
      }
      setPath(visitsOf(received));
    };
    // Without the record, which may have been pruned, the picture stays empty.
    read().catch(() => undefined);
    return () => abort.abort();
  }, [decisionId]);
  return path;
}
