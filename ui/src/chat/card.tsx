// The card of a pending action: what will change, the exact arguments, the time left, Confirm and Decline.
import type { VNode } from "preact";
import type { PendingAction, PendingCall, StoredMessage } from "../shared/client";
import { now } from "../clock";
import { countdown } from "../shared/format";
import { Json, Visible } from "../shared/visible";
import { MAX_LENGTH } from "./composer";

interface Props {
  readonly pending: PendingAction;
  readonly busy: boolean;
  readonly onAnswer: (yes: boolean) => void;
  /** Another way to answer. */
  readonly hint?: string;
  /** The name of the card where there are several. */
  readonly label?: string;
}

export function PendingCard({ pending, busy, onAnswer, hint, label = "Confirmation" }: Props): VNode {
  const [created, expires] = [Date.parse(pending.created_at), Date.parse(pending.expires_at)];
  const left = expires - Math.max(created, now.value);
  const expired = left <= 0;
  const whole = expires - created;
  const calls = callsOf(pending);
  return (
    <section class={`card ${expired ? "closed" : ""}`} data-pending={pending.id} aria-label={label} tabindex={-1}>
      <header>
        <h2>{expired ? "Expired" : calls.length > 1 ? `Confirm these ${calls.length} actions` : "Confirm this action"}</h2>
        {!expired && (
          <span class="time" role="timer" aria-label="Time left">
            {countdown(left)}
          </span>
        )}
      </header>
      {!expired && <progress class="left" max={whole} value={left} aria-hidden="true" />}
      {pending.asked > 1 && !expired && <p class="notice">Answer this first: your last message was neither yes nor no.</p>}
      {pending.changed_before && (
        <p class="notice">
          <Visible text={pending.changed_before} />
        </p>
      )}
      {pending.origins?.map((text) => (
        <p key={text} class="notice">
          <Visible text={text} />
        </p>
      ))}
      {calls.length > 1 ? (
        <ol class="change" tabindex={0}>
          {calls.map((call, index) => (
            <li key={index}>
              <Visible text={actionOf(call)} />
            </li>
          ))}
        </ol>
      ) : (
        <p class="change" tabindex={0}>
          <Visible text={actionOf(pending)} />
        </p>
      )}
      <details open={pending.by_id_only}>
        <summary class="quiet">{calls.length > 1 ? "The exact calls" : "The exact call"}</summary>
        {calls.length > 1 ? (
          <ol>
            {calls.map((call, index) => (
              <li key={index}>
                <Call call={call} />
              </li>
            ))}
          </ol>
        ) : (
          <Call call={pending} />
        )}
      </details>
      {expired ? (
        <p class="quiet">The five minutes have passed, so nothing was done. Ask again to get a new question.</p>
      ) : (
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
    </section>
  );
}

type ShownCall = Pick<PendingCall, "tool_name" | "arguments" | "description" | "object_text"> & { readonly by_id_only?: boolean };

/** Every call that a yes confirms, in their order. */
function callsOf(pending: PendingAction): readonly ShownCall[] {
  return pending.calls?.length ? pending.calls : [pending];
}

/** The description with the whole text of its object, of which it quotes only the beginning. */
function actionOf({ description, object_text: text }: ShownCall): string {
  return text ? description.replace(/'.*… \([\d,]+ characters\)'/, () => `'${text}'`) : description;
}

/** The tool and the arguments that the card does not show already, one on each line. */
function Call({ call }: { call: ShownCall }): VNode {
  const shown = call.by_id_only ? [] : call.description.split("\n");
  // Of a list, an object or a number that JavaScript would round, the card may show another spelling.
  const isShown = (name: string, value: unknown): boolean =>
    (typeof value === "string" && shown.includes(`${name} = '${value}'`)) || (typeof value === "number" && shown.includes(`${name} = ${value}`));
  const names = Object.keys(call.arguments).filter((name) => !isShown(name, call.arguments[name]));
  return (
    <dl class="arguments">
      <dt>tool</dt>
      <dd>
        <code>
          <Visible text={call.tool_name} />
        </code>
      </dd>
      {names.map((name) => (
        <Argument key={name} name={name} value={call.arguments[name]} />
      ))}
    </dl>
  );
}

/** The user's answer as the conversation shows it: with the action, because "Yes." alone says nothing in a list. */
export function answerTo(pending: PendingAction, yes: boolean): string {
  return [...`${yes ? "Yes" : "No"}: ${actionOf(pending)}`].slice(0, MAX_LENGTH).join("");
}

/** True for a message that `answerTo` has made. */
export function isAnswer(message: string): boolean {
  return /^(Yes|No): /.test(message);
}

function Argument({ name, value }: { name: string; value: unknown }): VNode {
  return (
    <>
      <dt>
        <Visible text={name} />
      </dt>
      <dd>
        <Json value={value} />
      </dd>
    </>
  );
}

const STATES: Readonly<Record<NonNullable<StoredMessage["question"]>, string>> = {
  open: "Open",
  confirmed: "Used: confirmed",
  declined: "Used: declined",
  expired: "Expired",
  superseded: "Superseded by a later message",
};

/** The question of an earlier message, and what became of it. */
export function ClosedCard({ message }: { message: StoredMessage }): VNode {
  return (
    <section class="card closed" data-closed={message.question} aria-label="Confirmation">
      <header>
        <h2>{message.question ? STATES[message.question] : "Closed"}</h2>
      </header>
      <p class="change">
        <Visible text={message.content} />
      </p>
    </section>
  );
}
