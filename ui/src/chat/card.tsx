// The card of a question, from the question to its receipt. The server says its state and all of its words.
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import type { Card, CardCall, SaidRow } from "../shared/client";
import { now } from "../clock";
import { countdown, fullTime, shortTime } from "../shared/format";
import { Formatted } from "../shared/formatted";
import { TableOf } from "../shared/said_table";
import { Json, Visible } from "../shared/visible";

interface Props {
  readonly card: Card;
  readonly busy: boolean;
  readonly onAnswer: (yes: boolean) => void;
  /** Withdraw the request for approval about which the card is. */
  readonly onWithdraw?: (request: string) => void;
  /** Another way to answer. */
  readonly hint?: string;
  /** The name of the card where there are several. */
  readonly label?: string;
  /** The button that undoes what it has done. */
  readonly undo?: VNode | false;
}

export function QuestionCard({ card, busy, onAnswer, onWithdraw, hint, label = "Confirmation", undo }: Props): VNode {
  const [created, expires] = [Date.parse(card.created_at), Date.parse(card.expires_at)];
  const left = expires - Math.max(created, now.value);
  const late = card.state === "waiting" && left <= 0;
  const waits = card.state === "waiting" && !late;
  const several = card.calls.length > 1;
  return (
    // No landmark: a conversation has many of them.
    <article class={`card ${waits ? "" : "closed"} ${card.state}`} data-question={card.id} data-state={card.state} aria-label={label} tabindex={-1}>
      <header>
        <h2>
          <Visible text={late ? card.late : card.heading} />
        </h2>
        {waits && (
          <span class="time" role="timer" aria-label="Time left">
            {countdown(left)}
          </span>
        )}
        {card.withdraw && (
          <span class="time">
            until <time dateTime={card.expires_at}>{shortTime(card.expires_at)}</time>
          </span>
        )}
        {card.answered_at && (
          <time class="quiet" dateTime={card.answered_at} title={fullTime(card.answered_at)}>
            {shortTime(card.answered_at)}
          </time>
        )}
      </header>
      {waits && <progress class="left" max={expires - created} value={left} aria-hidden="true" />}
      {(waits || card.withdraw) && <Lines of={card.notices} />}
      <ol class={several ? "change" : "change single"} tabindex={0}>
        {card.calls.map((call, index) => (
          <li key={index}>
            <Call call={call} />
          </li>
        ))}
      </ol>
      {waits && <Lines of={[...(card.because ?? []), ...(card.approval_then ? [card.approval_then] : [])]} />}
      <Lines of={card.people} plain={Boolean(card.answered_at)} />
      {card.note && (
        <p class="quiet">
          <Visible text={card.note} />
        </p>
      )}
      <details open={waits && Boolean(card.read)}>
        <summary class="quiet">{several ? "The exact calls" : "The exact call"}</summary>
        {card.calls.map((call, index) => (
          <Exact key={index} call={call} />
        ))}
      </details>
      {waits && (
        <div class="buttons">
          <button type="button" class="primary" disabled={busy} onClick={() => onAnswer(true)}>
            Confirm
          </button>
          <button type="button" disabled={busy} onClick={() => onAnswer(false)}>
            Decline
          </button>
          {hint && <span class="quiet">{hint}</span>}
        </div>
      )}
      {card.withdraw && onWithdraw && (
        <div class="buttons">
          <button type="button" disabled={busy} onClick={() => onWithdraw(card.withdraw ?? "")}>
            Withdraw
          </button>
        </div>
      )}
      {undo}
      {(card.answered_in || card.request) && (
        <p class="quiet links">
          {card.answered_in && <a href={addressOf(`/decisions/${card.answered_in}`)}>Decision</a>}
          {card.answered_in && card.request && " · "}
          {card.request && <a href={addressOf(`/inbox/${card.request}`)}>Request</a>}
        </p>
      )}
    </article>
  );
}

/** Sentences about the call: marked while the user, or somebody else, has to act on them. */
function Lines({ of: lines, plain = false }: { of: readonly string[] | undefined; plain?: boolean }): VNode {
  return (
    <>
      {lines?.map((text) => (
        <p key={text} class={plain ? "" : "notice"}>
          <Visible text={text} />
        </p>
      ))}
    </>
  );
}

/** The sentence of a call, its details, and what became of it. */
function Call({ call }: { call: CardCall }): VNode {
  const { said, heading, result = [], why } = call;
  // The object that its own server describes is in the sentence; its id is in the exact call.
  const asked = (said.rows ?? []).filter((row) => !row.described);
  const rows = [...asked.map((row) => ({ ...row, added: false })), ...result.map((row) => ({ ...row, added: true }))];
  return (
    <>
      {heading && <span class={`verdict ${call.state ?? ""}`}>{heading}</span>}
      <p class="sentence">
        {said.parts.map((part, index) =>
          part.value ? (
            <span key={index} class="value">
              <Visible text={shownOf(part)} />
            </span>
          ) : (
            <Visible key={index} text={part.text} />
          ),
        )}
      </p>
      {rows.length > 0 && (
        <dl class="arguments">
          {rows.map((row, index) => (
            <div key={index} class={row.quiet ? "quiet" : row.added ? "added" : ""}>
              <dt>
                <Visible text={row.label} />
              </dt>
              <dd {...((row.table || row.prose) && { class: "wide" })}>
                {row.was && (
                  <>
                    <s>
                      <Visible text={row.was} />
                    </s>{" "}
                    →{" "}
                  </>
                )}
                <Result row={row} />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {why && (
        <p class="notice">
          <Visible text={why} />
        </p>
      )}
    </>
  );
}

/** A value of a call, or of its result: a list is a table, and a long text has its lines. */
function Result({ row }: { row: SaidRow }): VNode {
  if (!row.table && !row.prose) return <Visible text={shownOf(row)} />;
  return (
    <div class="formatted">
      {row.table ? <TableOf table={row.table} /> : <Formatted text={row.prose ?? ""} />}
      {row.more && <p class="quiet">{row.more}</p>}
    </div>
  );
}

/** A value without quotes, which its look sets apart; one that is cut says so in its text. */
function shownOf({ text, shown, length }: { readonly text: string; readonly shown?: string; readonly length?: number }): string {
  return shown && !length ? shown : text;
}

function Exact({ call: { tool_name, arguments: given } }: { call: CardCall }): VNode {
  return (
    <dl class="arguments">
      <dt>tool</dt>
      <dd>
        <code>
          <Visible text={tool_name} />
        </code>
      </dd>
      {Object.entries(given).map(([name, value]) => (
        <>
          <dt>
            <Visible text={name} />
          </dt>
          <dd>
            <Json value={value} />
          </dd>
        </>
      ))}
    </dl>
  );
}
