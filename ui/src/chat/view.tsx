// The chat: conversations, messages, and the state machine of the latest turn.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { cancelQuestion } from "../inbox/store";
import { about, Disclosure, hasTasks, isOperator } from "../shared/about";
import { addressOf } from "../shared/address";
import { ErrorState, Loading } from "../shared/states";
import { shortTime } from "../shared/format";
import { navigate, path, query } from "../shared/router";
import { Visible, visible } from "../shared/visible";
import { loadTopology } from "../machine/machine";
import { Composer } from "./composer";
import { PlansInForce } from "./mandates";
import { TurnPanel } from "./panel";
import { recordedOf, useRecorded } from "./recorded";
import { announce, close, conversations, failure, loadConversations, moreConversations, open, opened } from "./store";
import { loadTasks, Tasks } from "./tasks";
import { Thread } from "./thread";
import { forget, isUnsent, join, resume, running, send, turn, visits } from "./turn";
import type { Message, Turn } from "./turn";

const REFRESH_MS = 4000;

/** True if the list of conversations was fetched just before the view is shown. */
let isPrepared = false;

/** Fetch what the view of a new conversation shows. */
export async function prepareChat(signal: AbortSignal): Promise<void> {
  await Promise.all([loadConversations(), loadTopology()]);
  isPrepared = !signal.aborted;
}

export function ChatView({ id }: { id: string | null }): VNode {
  const [listShown, setListShown] = useState(false);
  // An earlier decision whose path is shown instead of the latest one.
  const chosen = query.value.get("path");
  const choose = (decision: string | null): void => navigate(`/chat/${id}${decision ? `?path=${decision}` : ""}`, true);
  useEffect(() => {
    if (!isPrepared) void loadConversations().catch(() => undefined);
    isPrepared = false;
    void resume().then(ended);
  }, []);
  useEffect(() => {
    setListShown(false);
    if (turn.value?.reply?.conversation_id !== id && !running.value) forget();
    if (id === null) close();
    else void open(id);
  }, [id]);
  const conversation = id !== null && opened.value?.id === id ? opened.value : null;
  useEffect(() => {
    if (chosen !== null && running.value) choose(null);
  }, [turn.value?.key]);
  const last = conversation?.messages.at(-1);
  useEffect(() => {
    // A message without an answer: its turn runs, in another tab or on another device.
    if (id === null || last?.role !== "user" || running.value || turn.value?.decisionId === last.decision_id) return;
    void join(last.decision_id, { conversation_id: id, content: last.content }).then(ended);
  }, [last?.id]);
  usePendingRefresh(id, conversation?.pending_action != null || conversation?.messages.some(({ card }) => card?.withdraw) === true);

  const current = turn.value;
  // A turn that begins a conversation belongs to the empty chat, and then to the conversation that its reply names.
  const belongs =
    current !== null && ((current.message.conversation_id ?? null) === id || current.reply?.conversation_id === id);
  const shown = belongs ? current : null;
  const latest = conversation?.messages.findLast((message) => message.role === "assistant")?.decision_id ?? null;
  // Another tab may have gone on with the conversation: then the picture shows its turn.
  const overtaken = shown?.reply != null && latest !== null && latest !== shown.decisionId;
  const own = overtaken || chosen !== null ? null : shown;
  const decisionId = own ? (own.reply?.decision_id ?? null) : (chosen ?? latest);
  const recorded = useRecorded(decisionId);
  const known = own && recorded.path.length === 0 ? recordedOf(visits.value, own.reply) : recorded;
  const isLost = failure.value?.status === 403 || failure.value?.status === 404;
  const submit = (message: Message): void => {
    const shown = message.content && conversation ? { shown: { pending_action: conversation.pending_action?.id ?? null } } : {};
    void send({ ...message, ...shown, ...(id === null ? {} : { conversation_id: id }) }).then(ended);
  };
  return (
    <main class="chat">
      <aside class={`conversations ${listShown ? "shown" : ""}`} aria-label="Conversations">
        <a class="new" href={addressOf("/chat")}>
          New conversation
        </a>
        <Conversations current={id} />
        {hasTasks() && <Tasks />}
      </aside>
      <section class="talk">
        {(id !== null || shown) && <h1 class="visually-hidden">Conversation</h1>}
        <button type="button" class="list-toggle" aria-expanded={listShown} onClick={() => setListShown(!listShown)}>
          {listShown ? "Close the lists" : hasTasks() ? "Conversations and tasks" : "Conversations"}
        </button>
        {id !== null && !conversation && failure.value ? (
          <ErrorState error={failure.value} retry={() => void open(id)} />
        ) : id !== null && !conversation ? (
          <Loading what="the conversation" />
        ) : id === null && !shown ? (
          <Welcome onPick={(content) => submit({ content })} />
        ) : (
          <Thread
            conversation={conversation}
            turn={shown}
            running={belongs && running.value}
            ended={{ ...known, decisionId }}
            onRetry={(content) => submit({ content })}
            chosen={chosen}
            onChoose={(decision) => choose(decision === latest ? null : decision)}
            onWithdraw={(request) => void withdraw(request, id)}
            onAnswer={(yes) => {
              const pending = conversation?.pending_action;
              if (pending) submit({ answers: { pending_action: pending.id, yes, ...(pending.by_id_only && { read: pending.whole_digest }) } });
            }}
          />
        )}
        {id !== null && last && conversation?.messages.some(({ card }) => card?.state === "agreed") && (
          <PlansInForce conversationId={id} latest={last.id} />
        )}
        {!(id !== null && isLost) && (
          <Composer busy={running.value} conversationId={id} unsent={shown ? unsentText(shown) : ""} onSend={(content) => submit({ content })} />
        )}
      </section>
      <TurnPanel
        {...known}
        running={own !== null && running.value}
        decisionId={decisionId}
        turn={own?.key ?? decisionId}
        asked={chosen !== null}
      />
    </main>
  );
}

/** Show the conversation again; where something has run without this page, also what it may have changed. */
async function refreshed(id: string): Promise<void> {
  const before = opened.value?.messages.at(-1)?.id;
  await open(id);
  if (opened.value?.messages.at(-1)?.id === before) return;
  if (hasTasks()) void loadTasks();
  await loadConversations().catch(() => undefined);
}

/** Withdraw a request for approval. If it has ended meanwhile, the card says so. */
async function withdraw(request: string, id: string | null): Promise<void> {
  await cancelQuestion(request).catch(() => undefined);
  if (id !== null) await refreshed(id);
}

/** The text of a message that did not arrive; an answer to a card is given on the card. */
function unsentText(turn: Turn): string {
  return isUnsent(turn) && !turn.message.answers ? (turn.message.content ?? "") : "";
}

/** Show the answer of a turn: in its conversation, in the list, and in the other tabs. */
async function ended(): Promise<void> {
  const current = turn.value;
  const id = current?.reply?.conversation_id ?? current?.message.conversation_id;
  if (!current || !id) return;
  const begun = !current.message.conversation_id && path.value === "/chat";
  // The user may look at another conversation meanwhile.
  if (begun || path.value === `/chat/${id}`) await open(id);
  if (begun) navigate(`/chat/${id}`, true);
  announce(id);
  if (hasTasks()) void loadTasks();
  await loadConversations().catch(() => undefined);
}

/** Another tab or another device may answer the open question: ask for its state while it is shown. */
function usePendingRefresh(id: string | null, pending: boolean): void {
  useEffect(() => {
    if (id === null) return undefined;
    const refresh = (): void => {
      if (document.visibilityState === "visible" && !running.value) void refreshed(id);
    };
    const timer = pending ? window.setInterval(refresh, REFRESH_MS) : 0;
    window.addEventListener("focus", refresh);
    return () => {
      window.clearInterval(timer);
      window.removeEventListener("focus", refresh);
    };
  }, [id, pending]);
}

function Conversations({ current }: { current: string | null }): VNode {
  const list = conversations.value;
  if (!list) return <Loading what="conversations" />;
  if (list.length === 0) return <p class="quiet pad">No conversation yet.</p>;
  return (
    <nav aria-label="Conversations" tabindex={0}>
      <ul>
        {list.map((item) => (
          <li key={item.id}>
            <a href={addressOf(`/chat/${item.id}`)} {...(item.id === current ? { "aria-current": "page" as const } : {})}>
              <span class="title">
                <Visible text={item.title} />
              </span>
              <time dateTime={item.updated_at}>{shortTime(item.updated_at)}</time>
            </a>
          </li>
        ))}
      </ul>
      {moreConversations.value && (
        <button type="button" class="more" onClick={() => void loadConversations(true)}>
          More
        </button>
      )}
    </nav>
  );
}

function Welcome({ onPick }: { onPick: (content: string) => void }): VNode {
  return (
    <div class="welcome">
      <h1>The model proposes. Code decides.</h1>
      {/* All at once, so that nothing moves when the server has answered. */}
      {about.value && (
        <>
          <Disclosure />
          <p>
            <strong>{visible(about.value.title)}. </strong>
            Write what you want to know or to be done.{" "}
            {isOperator()
              ? "Each turn runs through nine states that you can watch, and changes nothing but what a receipt names."
              : "Nothing is changed but what a receipt names."}
          </p>
          <ul class="examples">
            {about.value.examples.map((example) => (
              <li key={example}>
                <button type="button" onClick={() => onPick(example)}>
                  {visible(example)}
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
