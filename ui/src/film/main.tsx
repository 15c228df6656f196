// The film in the file of a proof: the turn played from its record, and the difference to a what-if. It needs no server.
import { render } from "preact";
import { useState } from "preact/hooks";
import type { VNode } from "preact";
import { label, PLACES, ROUTES } from "../machine/layout";
import { Machine, topology } from "../machine/machine";
import { endingOf, visitsOfRecord } from "../machine/path";
import { Player } from "../machine/player";
import { Score } from "../machine/score";
import { Undoes } from "../machine/undoes";
import type { AgentDecision, LLMResponse, PendingAction, ToolInvocation, UndoneDecision } from "../shared/client";
import { Visible } from "../shared/visible";

/** The style sheet of the page, for a shadow root; the build puts it here. */
declare const FILM_STYLE: string;

interface DecisionRecord {
  readonly states: readonly string[];
  readonly state_ends_us?: readonly number[];
  readonly entries: readonly { readonly kind: string; readonly ms?: number; readonly result: unknown }[];
  readonly invocations?: readonly ToolInvocation[];
  readonly header: {
    readonly context: {
      readonly message: string;
      readonly undoes?: UndoneDecision;
      readonly pending_confirmation?: PendingAction | null;
      readonly approval?: { readonly request: { readonly action: PendingAction } };
    };
  };
  readonly decision: AgentDecision;
}

/** The report of a replay by other rules. */
interface WhatIf {
  /** The texts of the other rules, by their names. */
  readonly rules: Readonly<Record<string, string>>;
  readonly states: readonly string[];
  readonly departure: string | null;
  readonly differences: readonly { readonly what: string; readonly recorded: string; readonly replayed: string }[];
}

interface Props {
  readonly record: DecisionRecord;
  readonly whatIf: WhatIf | null;
}

/** As `DecisionRecord.answered`. */
/** The kind of an outcome: the file has no server that says it. */
function kindOf(outcome: string): "error" | "refusal" | null {
  if (outcome.startsWith("ERROR:")) return "error";
  return outcome.startsWith("REFUSAL:") ? "refusal" : null;
}

function answeredIn({ header: { context }, entries, states }: DecisionRecord): PendingAction | null {
  if (context.approval) return context.approval.request.action;
  const isUsed = entries.some(({ kind, result }) => kind === "consume" && result === true);
  return isUsed && states[1] !== "INVOKE_LLM" ? (context.pending_confirmation ?? null) : null;
}

function Film({ record, whatIf }: Props): VNode {
  const visits = visitsOfRecord(
    {
      states: record.states,
      state_ends_us: record.state_ends_us ?? [],
      llm_calls: record.entries
        .filter(({ kind }) => kind === "model")
        .map(({ result, ms }) => ({ response: result as LLMResponse, duration_ms: ms ?? 0 })),
      tool_invocations: record.invocations ?? [],
      undoes: record.header.context.undoes ?? null,
      answered: answeredIn(record),
      result: record.decision,
    },
    null,
  );
  const [step, setStep] = useState(visits.length);
  const [playing, setPlaying] = useState(false);
  const [selected, setSelected] = useState<string | null>(null);
  if (visits.length === 0) return <p class="quiet">The message was refused before the first state.</p>;
  const current = visits[step - 1];
  return (
    <div class="film">
      <p class="film-words">
        <strong>
          <Visible text={record.header.context.message} />
        </strong>
        <br />
        <Visible text={record.decision.response_text ?? record.decision.clarification_question ?? ""} />
      </p>
      {visits[0]?.undoing && <Undoes undoing={visits[0].undoing} />}
      <div class="columns">
        <div>
          <Machine
            visits={visits.slice(0, step)}
            ending={endingOf(visits.slice(0, step), step < visits.length ? null : kindOf(record.decision.outcome_category ?? ""))}
            running={step < visits.length}
            selected={null}
            onSelect={(state) => {
              const last = visits.findLastIndex((visit) => visit.state === state);
              if (last >= 0) setStep(last + 1);
            }}
          />
          <Player
            steps={visits.length}
            step={step}
            text={current ? label(current.state) : ""}
            playing={playing}
            onPlay={setPlaying}
            onStep={setStep}
          />
          <p class="quiet">
            {step} of {visits.length} · {current && label(current.state)}
            {current?.undoing && <Visible text={` · ${current.undoing.title} ${current.undoing.decision}`} />}
          </p>
        </div>
        <div>
          <Score visits={visits} running={false} reached={step} selected={selected} onSelect={setSelected} />
        </div>
      </div>
      {whatIf && <Difference states={record.states} whatIf={whatIf} />}
    </div>
  );
}

function Difference({ states, whatIf }: { states: readonly string[]; whatIf: WhatIf }): VNode {
  const parting = whatIf.states.findIndex((state, index) => state !== states[index]);
  const isSame = whatIf.differences.length === 0 && whatIf.departure === null;
  return (
    <section class="difference">
      <h2>
        With <Visible text={Object.keys(whatIf.rules).join(" and ")} />
      </h2>
      <p class={`verdict-line ${isSame ? "same" : "different"}`}>
        {isSame
          ? "They decide the same."
          : parting >= 0
            ? `The path is the same up to step ${parting}; then ${label(whatIf.states[parting] ?? "")} instead of ${label(states[parting] ?? "the end")}.`
            : whatIf.departure
              ? `The path is the same up to step ${whatIf.states.length}.`
              : "They decide differently."}
        {whatIf.departure && <Visible text={` It ends there: ${whatIf.departure}.`} />}
      </p>
      {whatIf.differences.length > 0 && (
        <table class="compare">
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">Recorded</th>
              <th scope="col">With other rules</th>
            </tr>
          </thead>
          <tbody>
            {whatIf.differences.map((one, index) => (
              <tr key={index}>
                {[one.what, one.recorded, one.replayed].map((text, column) => (
                  <td key={column}>
                    <Visible text={text} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {Object.entries(whatIf.rules).map(([name, text]) => (
        <details key={name}>
          <summary>
            <Visible text={name} />
          </summary>
          <pre>
            <Visible text={text} />
          </pre>
        </details>
      ))}
      <p class="quiet">
        This part is not proved: whoever made this file ran the decision again. To check it, run it yourself from an export of the
        log: graph-agent replay FILE --constitution OTHER --conditions OTHER.
      </p>
    </section>
  );
}

topology.value = {
  start: "BUILD_REQUEST",
  end: "END",
  gates: [],
  states: Object.keys(PLACES),
  edges: Object.keys(ROUTES).map((route) => {
    const [source = "", target = ""] = route.split(">");
    return { source, target, outcome: "" };
  }),
  max_iterations: 0,
};

/** Show the film of a record in `host`; nothing for a record that is not proved. */
function play(host: HTMLElement, record: DecisionRecord | null, whatIf: WhatIf | null): void {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const style = new CSSStyleSheet();
  style.replaceSync(FILM_STYLE);
  root.adoptedStyleSheets = [style];
  // Another record begins another film.
  render(null, root);
  if (record) render(<Film record={record} whatIf={whatIf} />, root);
}

Object.assign(globalThis, { playFilm: play });
