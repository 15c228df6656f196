// A recorded decision beside the same decision made again: the result, and the states one by one.
import { useState } from "preact/hooks";
import type { VNode } from "preact";
import { Authored } from "../shared/authored";
import type { AgentDecision } from "../shared/client";
import { Outcome } from "../decisions/row";
import { label } from "../machine/layout";
import { counted, words } from "../shared/format";
import { Json, Visible } from "../shared/visible";
import type { Undoing } from "../machine/undo";
import type { InWords, Report, Step } from "./reports";

interface Props {
  /** The replay under the recorded constitution. */
  readonly unchanged: Report;
  /** The replay by the tried rules, if there is one. */
  readonly whatIf: Report | null;
  readonly undoing: Undoing | null;
}

export function Comparison({ unchanged, whatIf, undoing }: Props): VNode {
  const shown = whatIf ?? unchanged;
  return (
    <>
      <Verdict unchanged={unchanged} whatIf={whatIf} />
      <section class="block">
        <h2>Decision</h2>
        <Decisions report={shown} heading={whatIf ? "By these rules" : "Run again"} />
      </section>
      <section class="block">
        <h2>States</h2>
        <States recorded={whatIf ? unchanged.steps : null} states={shown.recorded?.states ?? []} replayed={shown.steps} undoing={undoing} />
      </section>
      {shown.differences.length > 0 && (
        <section class="block">
          <h2>Differences</h2>
          <Differences report={shown} />
        </section>
      )}
    </>
  );
}

function Verdict({ unchanged, whatIf }: Omit<Props, "undoing">): VNode {
  const shown = whatIf ?? unchanged;
  if (shown.identical) {
    return (
      <p class="verdict-line same" role="status">
        {whatIf
          ? "These rules decide the same."
          : `Identical: all ${shown.steps.length} states, every request and the decision came out as recorded.`}
      </p>
    );
  }
  const refused = [...new Set(shown.refused.map((call) => `${call.tool_name} would have been refused: ${call.rule}`))].join("; ");
  // Where refused calls are the reason, the server's sentence begins with them.
  const why = shown.departure ?? refused;
  return (
    <p class="verdict-line different" role="status">
      {refused ? "" : whatIf ? "These rules decide differently. " : "This is not what was recorded. "}
      {shown.departure && !refused && "It ends early: "}
      {why && <Visible text={`${why}.`} />}
    </p>
  );
}

function Decisions({ report, heading }: { report: Report; heading: string }): VNode {
  const before = shownOf(report.recorded);
  const after = shownOf(report);
  const rows: [string, (decision: Shown) => VNode | string][] = [
    ["Outcome", (one) => <Outcome {...one} />],
    ["Type", (one) => one.type_words],
    [
      "Reply",
      (one) => (
        <p class="content">
          <Authored text={text("Reply", one)} parts={one.authors?.reply} />
        </p>
      ),
    ],
    ["Asks to confirm", (one) => <Visible text={one.pending_action?.description ?? "nothing"} />],
    ["Receipts", (one) => <Visible text={one.effects?.join("\n") || "none"} />],
  ];
  return (
    <table class="compare">
      <thead>
        <tr>
          <td />
          <th scope="col">Recorded</th>
          <th scope="col">{heading}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, show]) => {
          const different = after === null || before === null || text(name, before) !== text(name, after);
          return (
            <tr key={name} class={different ? "different" : ""}>
              <th scope="row">{name}</th>
              <td>{before ? show(before) : "unreadable"}</td>
              <td>{after ? show(after) : <span class="quiet">not reached</span>}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

type Shown = Omit<AgentDecision, "outcome_category"> & InWords & { readonly outcome_category: string };

/** A decision with its words; null if there is none. */
function shownOf(found: Report | Report["recorded"]): Shown | null {
  if (!found?.decision) return null;
  const { decision, type_words = "", ending = "", ending_kind = "pending" } = found;
  return { ...decision, outcome_category: decision.outcome_category ?? "", type_words, ending, ending_kind };
}

function text(name: string, one: Shown): string {
  switch (name) {
    case "Outcome":
      return one.outcome_category ?? "";
    case "Type":
      return one.decision_type;
    case "Reply":
      return one.response_text ?? one.clarification_question ?? "";
    case "Asks to confirm":
      return one.pending_action?.description ?? "";
    default:
      return one.effects?.join("\n") ?? "";
  }
}

interface StatesProps {
  /** The steps of the recorded turn; null if only its states are known. */
  readonly recorded: readonly Step[] | null;
  readonly states: readonly string[];
  readonly replayed: readonly Step[];
  /** What the decision undoes, which its first state begins with. */
  readonly undoing: Undoing | null;
}

function States({ recorded, states, replayed, undoing }: StatesProps): VNode {
  const [open, setOpen] = useState<number | null>(null);
  const rows = Array.from({ length: Math.max(states.length, replayed.length) }, (_, index) => index);
  return (
    <ol class="state-rows">
      {rows.map((index) => {
        const state = states[index];
        const before = recorded?.[index];
        const after = replayed[index];
        const moved = state !== after?.state;
        const different = moved || (before !== undefined && (before.outcome !== after?.outcome || before.refused !== after.refused));
        return (
          <li key={index} class={different ? "different" : ""}>
            <button type="button" aria-expanded={open === index} onClick={() => setOpen(open === index ? null : index)}>
              <span class="number">{index + 1}</span>
              <StateCell state={state} step={before} />
              <StateCell state={after?.state} step={after} />
              {different && <span class="mark">differs</span>}
            </button>
            {index === 0 && undoing && (
              <p class="quiet">
                {undoing.title} {undoing.decision}
              </p>
            )}
            {open === index && (
              <div class="state-changes">
                {before && <Changes step={before} other={after} title="Recorded" />}
                {after && <Changes step={after} other={before} title={before ? "By these rules" : "Changes"} />}
              </div>
            )}
          </li>
        );
      })}
    </ol>
  );
}

function StateCell({ state, step }: { state: string | undefined; step: Step | undefined }): VNode {
  if (state === undefined) return <span class="quiet">not entered</span>;
  return (
    <span>
      {label(state)}
      {step && <span class="quiet"> {words(step.outcome)}</span>}
      {step && step.refused > 0 && <span class="verdict refused">{counted(step.refused, "call")} refused</span>}
    </span>
  );
}

function Changes({ step, other, title }: { step: Step; other: Step | undefined; title: string }): VNode {
  return (
    <section>
      <h3>{title}</h3>
      <dl class="arguments">
        {Object.entries(step.changes).map(([name, value]) => (
          <>
            <dt>{name.replaceAll("_", " ")}</dt>
            <dd class={other && other.changes[name] !== value ? "different" : ""}>
              <Json value={value} />
            </dd>
          </>
        ))}
      </dl>
    </section>
  );
}

export function Differences({ report }: { report: Report }): VNode {
  return (
    <table class="compare">
      <thead>
        <tr>
          <th scope="col">Field</th>
          <th scope="col">Recorded</th>
          <th scope="col">Replayed</th>
        </tr>
      </thead>
      <tbody>
        {report.differences.map((one, index) => (
          <tr key={index}>
            <th scope="row">
              <Visible text={one.what} />
            </th>
            <td>
              <Visible text={one.recorded} />
            </td>
            <td>
              <Visible text={one.replayed} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
