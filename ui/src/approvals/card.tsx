// The user's own requests of one conversation: their state and time, and when one ends, what became of it.
import { useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import type { Conversation, QuestionSummary } from "../shared/client";
import { shortTime } from "../shared/format";
import { Visible } from "../shared/visible";
import { cancelQuestion, listQuestions, useEvery } from "../inbox/store";

interface Props {
  readonly conversation: Conversation;
  /** A request has ended, and the conversation does not show it yet. */
  readonly onEnded: () => void;
}

export function OwnRequests({ conversation, onEnded }: Props): VNode {
  const [open, setOpen] = useState<readonly QuestionSummary[]>([]);
  useEvery(
    () =>
      void listQuestions("own").then(
        ({ questions }) => {
          const own = questions.filter((one) => one.conversation_id === conversation.id);
          setOpen(own.filter((one) => one.state === "open"));
          if (own.some((one) => isUnseen(one, conversation))) onEnded();
        },
        () => undefined,
      ),
    [conversation.id, conversation.messages.at(-1)?.id],
  );
  return (
    <>
      {open.map((one) => (
        <section key={one.id} class="card" aria-label="Waits for an approval">
          <header>
            <h2>Waits for an approval</h2>
            <span class="time">until {shortTime(one.expires_at)}</span>
          </header>
          <p class="change">
            <Visible text={one.description} />
          </p>
          {one.decided_elsewhere && (
            <p class="quiet">
              <Visible text={one.decided_elsewhere} />
            </p>
          )}
          <div class="buttons">
            <button type="button" onClick={() => void cancelQuestion(one.id).catch(() => undefined)}>
              Withdraw
            </button>
            <a href={addressOf(`/inbox/${one.id}`)}>Details</a>
          </div>
        </section>
      ))}
    </>
  );
}

/** True if the end of a request is not among the messages that are shown. Those before them are not fetched yet. */
function isUnseen({ closing_decision, ended_at }: QuestionSummary, { messages }: Conversation): boolean {
  const isLater = Date.parse(ended_at ?? "") >= Date.parse(messages[0]?.created_at ?? "");
  return closing_decision !== null && isLater && !messages.some(({ decision_id, role }) => decision_id === closing_decision && role === "assistant");
}
