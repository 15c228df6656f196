// One decision as a row that links to it, in every list of decisions.
import type { VNode } from "preact";
import type { LoggedDecision } from "../shared/client";
import { counted, duration, fullTime, shortTime, words } from "../shared/format";
import { OUTCOMES } from "../shared/meanings";
import { visible } from "../shared/text";

interface Options {
  /** The view to open; by default the decision itself. */
  readonly href?: string;
  /** True leaves out the decision type and the duration. */
  readonly brief?: boolean;
}

/** The row. Not a component, because a long list makes many of them while it scrolls. */
export function decisionRow(item: LoggedDecision, { href = `/decisions/${item.decision_id}`, brief = false }: Options = {}): VNode {
  return (
    <a class={brief ? "row brief" : "row"} href={href}>
      <time dateTime={item.created_at} title={fullTime(item.created_at)}>
        {shortTime(item.created_at)}
      </time>
      <span class="row-text">
        {item.refused_calls > 0 && <span class="verdict refused">{counted(item.refused_calls, "call")} refused</span>}
        {visible(item.message)}
      </span>
      {!brief && <span class="row-type">{words(item.decision_type)}</span>}
      {Outcome({ outcome: item.outcome_category })}
      {!brief && <span class="row-ms">{item.status === "PENDING" ? "" : duration(item.duration_ms)}</span>}
    </a>
  );
}

/** The outcome in words; its color repeats the category. */
export function Outcome({ outcome }: { outcome: string }): VNode {
  const category = outcome.split(":")[0] ?? outcome;
  return (
    <span class={`outcome ${category.toLowerCase()}`} title={OUTCOMES[outcome]}>
      {words(outcome)}
    </span>
  );
}
