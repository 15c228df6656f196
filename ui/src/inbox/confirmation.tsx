// A question that waits for the user's yes or no, and after the answer what became of it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { QuestionCard } from "../chat/card";
import { announce } from "../chat/store";
import { Reply } from "../shared/authored";
import { ApiError } from "../shared/client";
import type { Card, ChatReply, QuestionSummary } from "../shared/client";
import { CodeLines } from "../shared/code_lines";
import { Visible } from "../shared/visible";
import { answerQuestion, loadInbox, readQuestion } from "./store";

interface Props {
  readonly question: QuestionSummary;
  readonly card: Card;
  readonly open: boolean;
  /** Its place in the list, which tells it from the others. */
  readonly number?: number;
}

export function Confirmation({ question, card, open, number = 1 }: Props): VNode {
  const { conversation_id, conversation_title: title } = question;
  const [busy, setBusy] = useState(false);
  const [reply, setReply] = useState<ChatReply | null>(null);
  const [after, setAfter] = useState<QuestionSummary | null>(null);
  const [failure, setFailure] = useState("");
  // Pressed again after a lost connection, it is the same request: it takes effect once.
  const key = useRef(crypto.randomUUID());
  const place = useRef<HTMLDivElement>(null);
  const height = useRef(0);
  const answered = useRef<boolean | null>(null);
  const label = `Confirmation ${number}`;
  const isOpen = reply === null && (open || busy);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    element.style.minHeight = isOpen ? "" : element.style.minHeight || `${height.current}px`;
    if (isOpen) height.current = element.getBoundingClientRect().height;
  });

  const isGone = !isOpen && after === null;
  useEffect(() => {
    // It was answered elsewhere, was replaced, or has expired: the server says which.
    if (isGone) void readQuestion(question.id).then(setAfter, () => undefined);
  }, [isGone]);

  const answer = async (yes: boolean): Promise<void> => {
    // Another answer is another request.
    if (answered.current !== null && answered.current !== yes) key.current = crypto.randomUUID();
    answered.current = yes;
    setBusy(true);
    setFailure("");
    try {
      const given = await answerQuestion(question.id, { yes, digest: question.digest }, key.current);
      setReply(given.reply);
      setAfter(given.question);
      announce(conversation_id);
      await loadInbox();
    } catch (error) {
      if (error instanceof ApiError) setFailure(error.message);
    }
    setBusy(false);
  };

  return (
    <div ref={place}>
      {isOpen ? (
        <QuestionCard label={label} card={card} busy={busy} onAnswer={(yes) => void answer(yes)} />
      ) : (
        <section class="card closed" data-closed={reply ? "answered" : "gone"} aria-label={label}>
          <header>
            <h2>{after?.shown?.heading ?? "Closed"}</h2>
          </header>
          <p class="change">
            <Visible text={question.description} />
          </p>
          {reply && (
            <div role="status">
              <div class="content">
                <Reply text={reply.reply} parts={reply.decision.authors?.reply} />
              </div>
              <CodeLines effects={reply.decision.effects} notices={reply.decision.notices} authors={reply.decision.authors} />
            </div>
          )}
        </section>
      )}
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      <p class="quiet">
        {title ? (
          <>
            Asked in{" "}
            <a href={addressOf(`/chat/${conversation_id}`)}>
              <Visible text={title} />
            </a>
          </>
        ) : (
          "Asked by a program"
        )}
        {reply && (
          <>
            {" · "}
            <a href={addressOf(`/decisions/${reply.decision_id}`)}>Decision</a>
          </>
        )}
      </p>
    </div>
  );
}
