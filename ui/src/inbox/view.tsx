// The inbox: what waits for the user's yes or no, from every conversation and from the programs that use the gateway, and the
// calls of others that wait for the user's approval.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { Listed } from "../approvals/request";
import { answerTo, PendingCard } from "../chat/card";
import { announce } from "../chat/store";
import { Reply } from "../shared/authored";
import { ApiError, post, request } from "../shared/client";
import type { ChatReply, OpenConfirmation } from "../shared/client";
import { CodeLines } from "../shared/code_lines";
import { parseJson } from "../shared/json";
import { Loading } from "../shared/states";
import { Visible } from "../shared/visible";
import { approvals, loadInbox, waiting } from "./store";

export function InboxView(): VNode {
  const current = waiting.value;
  // What was shown once stays where it is until the view is left: no other card may move under the pointer.
  const shown = useRef(new Map<string, OpenConfirmation>());
  for (const one of current ?? []) shown.current.set(one.pending_action.id, one);
  const open = new Set(current?.map(({ pending_action: { id } }) => id));
  return (
    <main class="inbox" tabindex={0}>
      <header class="view-title">
        <h1>Inbox</h1>
      </header>
      {/* One section for each kind of thing that waits for this user. */}
      <section aria-label="Confirmations">
        <h2>Waits for your yes or no</h2>
        {!current ? (
          <Loading what="what waits for you" />
        ) : shown.current.size === 0 ? (
          <p class="state-text">
            Nothing waits for you. What the assistant, or a program that uses your tools, has to ask you first appears here by itself.
          </p>
        ) : (
          <ul class="waiting">
            {[...shown.current].map(([id, item]) => (
              <Item key={id} item={item} open={open.has(id)} />
            ))}
          </ul>
        )}
      </section>
      {current && (
        <section aria-label="Approvals">
          <h2>Waits for your approval</h2>
          {approvals.value?.length ? (
            <ul class="waiting">
              {approvals.value.map((one) => (
                <li key={one.id}>
                  <Listed request={one} />
                </li>
              ))}
            </ul>
          ) : (
            <p class="state-text">No call of another person waits for your approval.</p>
          )}
          <p>
            <a href={addressOf("/approvals")}>All approvals, also of your own calls</a>
          </p>
        </section>
      )}
    </main>
  );
}

/** A question, and after the answer what became of it. */
function Item({ item, open }: { item: OpenConfirmation; open: boolean }): VNode {
  const { pending_action: pending, conversation_id, title } = item;
  const [busy, setBusy] = useState(false);
  const [reply, setReply] = useState<ChatReply | null>(null);
  const [failure, setFailure] = useState("");
  // Pressed again after a lost connection, it is the same request: it takes effect once.
  const key = useRef(crypto.randomUUID());
  const place = useRef<HTMLLIElement>(null);
  const height = useRef(0);
  const answered = useRef<boolean | null>(null);
  const isOpen = reply === null && (open || busy);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    element.style.minHeight = isOpen ? "" : element.style.minHeight || `${height.current}px`;
    if (isOpen) height.current = element.getBoundingClientRect().height;
  });

  const answer = async (yes: boolean): Promise<void> => {
    // Another answer is another request.
    if (answered.current !== null && answered.current !== yes) key.current = crypto.randomUUID();
    answered.current = yes;
    setBusy(true);
    setFailure("");
    const answers = { pending_action: pending.id, yes, ...(pending.by_id_only && { read: pending.whole_digest }) };
    try {
      const sent = post({ conversation_id, content: answerTo(pending, yes), answers }, { "Idempotency-Key": key.current });
      setReply(parseJson(await (await request("/api/chat", sent)).text()) as ChatReply);
      announce(conversation_id);
      await loadInbox();
    } catch (error) {
      if (error instanceof ApiError) setFailure(error.message);
    }
    setBusy(false);
  };

  return (
    <li ref={place}>
      {isOpen ? (
        <PendingCard pending={pending} busy={busy} onAnswer={(yes) => void answer(yes)} />
      ) : (
        <section class="card closed" data-closed={reply ? "answered" : "gone"} aria-label="Confirmation">
          <header>
            <h2>{reply ? (answered.current ? "You confirmed" : "You declined") : "Answered elsewhere, replaced, or expired"}</h2>
          </header>
          <p class="change">
            <Visible text={pending.description} />
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
        Asked in{" "}
        <a href={addressOf(`/chat/${conversation_id}`)}>
          <Visible text={title} />
        </a>
        {reply && (
          <>
            {" · "}
            <a href={addressOf(`/decisions/${reply.decision_id}`)}>Decision</a>
          </>
        )}
      </p>
    </li>
  );
}
