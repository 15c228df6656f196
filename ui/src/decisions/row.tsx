// One decision as a row that links to it, in every list of decisions.
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import type { LoggedDecision } from "../shared/client";
import { counted, duration, fullTime, integer, shortTime } from "../shared/format";
import { meaningOf } from "../shared/about";
import { visible } from "../shared/visible";

interface Options {
  /** The view to open; by default the decision itself. */
  readonly href?: string;
  /** True leaves out the user, the tools, the tokens and the duration. */
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
        {visible(item.title)}
      </span>
      {!brief && <span class="row-user">{visible(item.user_id)}</span>}
      {!brief && (
        <span class="row-tools" title={item.tools.join(", ")}>
          {visible(item.tools.join(", "))}
        </span>
      )}
      <span class="row-outcome">{Outcome(item)}</span>
      {!brief && <span class="row-tokens" title="Tokens">{item.usage && integer(item.usage.total_tokens ?? 0)}</span>}
      {!brief && <span class="row-ms">{item.status === "PENDING" ? "" : duration(item.duration_ms)}</span>}
    </a>
  );
}

/** What the columns of a row are. */
export function RowHeads(): VNode {
  return (
    <div class="row-heads" aria-hidden="true">
      <span>Time</span>
      <span>Message</span>
      <span class="row-user">User</span>
      <span class="row-tools">Tools</span>
      <span>Outcome</span>
      <span class="row-tokens">Tokens</span>
      <span class="row-ms">Duration</span>
    </div>
  );
}

/** The end of a decision in the log or of a replay. */
export type Ended = Pick<LoggedDecision, "ending" | "ending_kind" | "outcome_category" | "decision_type">;

/** How a decision came out, in the words of the server; its color repeats the kind. */
export function Outcome({ ending, ending_kind: kind, outcome_category: outcome, decision_type: type }: Ended): VNode {
  return (
    <span class={`outcome ${kind}`} title={`${outcome} · ${type}\n${meaningOf(outcome)}`}>
      {visible(ending)}
    </span>
  );
}
