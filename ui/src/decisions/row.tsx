// One decision as a row that links to it, in every list of decisions.
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import type { LoggedDecision } from "../shared/client";
import { counted, duration, fullTime, isQuestion, outcomeWords, shortTime, words } from "../shared/format";
import { OUTCOMES } from "../shared/meanings";
import { visible } from "../shared/visible";

interface Options {
  /** The view to open; by default the decision itself. */
  readonly href?: string;
  /** True leaves out the decision type and the duration. */
  readonly brief?: boolean;
}

/** The row. Not a component, because a long list makes many of them while it scrolls. */
export function decisionRow(item: LoggedDecision, { href = `/decisions/${item.decision_id}`, brief = false }: Options = {}): VNode {
  return (
    <a class={brief ? "row brief" : "row"} href={addressOf(href)}>
      <time dateTime={item.created_at} title={fullTime(item.created_at)}>
        {shortTime(item.created_at)}
      </time>
      <span class="row-text">
        {item.refused_calls > 0 && <span class="verdict refused">{counted(item.refused_calls, "call")} refused</span>}
        {visible(titleOf(item))}
      </span>
      {!brief && <span class="row-type">{words(item.decision_type)}</span>}
      {Outcome({ outcome: item.outcome_category, type: item.decision_type })}
      {!brief && <span class="row-ms">{item.status === "PENDING" ? "" : duration(item.duration_ms)}</span>}
    </a>
  );
}

const ANSWERS: Readonly<Record<string, string>> = { EXECUTE_PENDING: "Confirmed", CANCEL_PENDING: "Declined" };

/** The message, or for an answer to a question the action that it was about. */
export function titleOf({ decision_type, message, action }: LoggedDecision): string {
  if (action === null) return message;
  // The question has an argument on each line; a title has one line.
  return `${ANSWERS[decision_type]}: ${action}`.replace(":\n", ": ").replaceAll("\n", ", ");
}

/** The outcome in words; its color repeats the category. A question waits for the user, whatever its category. */
export function Outcome({ outcome, type = "" }: { outcome: string; type?: string }): VNode {
  const category = outcome.split(":")[0] ?? outcome;
  return (
    <span class={`outcome ${isQuestion(type) ? "asked" : category.toLowerCase()}`} title={OUTCOMES[outcome]}>
      {outcomeWords(outcome, type)}
    </span>
  );
}
