// The messages of a conversation. The lines that code composes (receipts, notices) differ from the model's words.
import { useEffect, useRef } from "preact/hooks";
import type { VNode } from "preact";
import type { Conversation, StoredMessage } from "../shared/client";
import { CodeLines } from "../shared/code_lines";
import { fullTime, shortTime } from "../shared/format";
import { Visible } from "../shared/text";
import { ClosedCard, PendingCard } from "./card";
import { loadOlder } from "./store";
import type { Turn } from "./turn";

interface Props {
  readonly conversation: Conversation | null;
  /** The turn of this conversation that runs in this tab. */
  readonly turn: Turn | null;
  readonly running: boolean;
  /** The decision whose path is shown, if it is not the latest one. */
  readonly chosen: string | null;
  readonly onChoose: (decision: string) => void;
  readonly onAnswer: (yes: boolean) => void;
}

export function Thread({ conversation, turn, running, chosen, onChoose, onAnswer }: Props): VNode {
  const end = useRef<HTMLDivElement>(null);
  const messages = conversation?.messages ?? [];
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [messages.at(-1)?.id, turn?.key, running]);
  const pending = conversation?.pending_action ?? null;
  const asking = pending ? messages.findLast((message) => message.decision_type === "REQUEST_CONFIRMATION") : undefined;
  // The server stores the user's message when the turn begins; until it is fetched it is shown from the turn.
  const unsaved = turn && !messages.some((message) => message.decision_id === turn.decisionId) ? turn : null;
  return (
    <div class="thread" role="log" aria-label="Messages">
      {conversation?.has_more && (
        <button type="button" class="more" onClick={() => void loadOlder()}>
          Earlier messages
        </button>
      )}
      {messages.map((message, index) => (
        <StoredItem
          key={message.id}
          message={message}
          chosen={message.decision_id === chosen}
          onChoose={() => onChoose(message.decision_id)}
          card={
            message === asking && pending ? (
              <PendingCard pending={pending} busy={running} onAnswer={onAnswer} />
            ) : message.decision_type === "REQUEST_CONFIRMATION" ? (
              <ClosedCard message={message} later={messages.slice(index + 1).filter((next) => next.role === "assistant")} />
            ) : null
          }
        />
      ))}
      {unsaved && (
        <article class="message user">
          <p class="content">
            <Visible text={unsaved.message.content ?? (unsaved.message.answers?.yes ? "Yes." : "No.")} />
          </p>
        </article>
      )}
      {running && (
        <p class="working" role="status">
          Working
        </p>
      )}
      {turn?.failure && (
        <p class="failure" role="alert">
          {turn.failure}
        </p>
      )}
      <div ref={end} />
    </div>
  );
}

interface ItemProps {
  readonly message: StoredMessage;
  readonly card: VNode | null;
  readonly chosen: boolean;
  readonly onChoose: () => void;
}

function StoredItem({ message, card, chosen, onChoose }: ItemProps): VNode {
  const answer = message.role === "assistant";
  return (
    <article class={`message ${message.role} ${chosen ? "chosen" : ""}`} {...(answer && { onClick: onChoose })}>
      {card ?? (
        <p class="content">
          <Visible text={message.content} />
        </p>
      )}
      <CodeLines effects={message.effects} notices={message.notices} />
      {answer && (
        <footer>
          <time dateTime={message.created_at} title={fullTime(message.created_at)}>
            {shortTime(message.created_at)}
          </time>
          <a href={`/decisions/${message.decision_id}`}>Decision</a>
          <button type="button" class="plain" aria-pressed={chosen}>
            Path
          </button>
        </footer>
      )}
    </article>
  );
}
