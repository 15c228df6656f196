// The messages of a conversation. The lines that code composes (receipts, notices) differ from the model's words.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { verdictOf } from "../machine/calls";
import { endingOf } from "../machine/path";
import { Sign } from "../machine/sign";
import type { Visit } from "../machine/path";
import { brief } from "../machine/score";
import { Disclosure, kindOf } from "../shared/about";
import { addressOf } from "../shared/address";
import { byline, Reply } from "../shared/authored";
import { Boundary } from "../boundary";
import type { Conversation, StoredMessage } from "../shared/client";
import { CodeLines } from "../shared/code_lines";
import { fullTime, shortTime } from "../shared/format";
import { Visible } from "../shared/visible";
import { QuestionCard } from "./card";
import { Cause } from "./ending";
import type { Recorded } from "./recorded";
import { Step } from "./step";
import { loadOlder } from "./store";
import { Undo } from "./undo";
import { stop } from "./turn";
import type { Turn } from "./turn";

interface Props {
  readonly conversation: Conversation | null;
  /** The turn of this conversation that runs in this tab. */
  readonly turn: Turn | null;
  readonly running: boolean;
  /** The closed decision whose path is shown. */
  readonly ended: Recorded & { readonly decisionId: string | null };
  /** Send the message of a failed turn again. */
  readonly onRetry: (content: string) => void;
  /** The decision whose path is shown, if it is not the latest one. */
  readonly chosen: string | null;
  readonly onChoose: (decision: string) => void;
  readonly onAnswer: (yes: boolean) => void;
  readonly onWithdraw: (request: string) => void;
}

/** For so many of the last messages with receipts or notices the page asks whether they can be undone. */
const UNDOABLE = 10;
/** So many pixels from the end of the thread its reader counts as at the end. */
const NEAR_END = 40;

export function Thread({ conversation, turn, running, ended, onRetry, chosen, onChoose, onAnswer, onWithdraw }: Props): VNode {
  const log = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => (log.current ? followEnd(log.current) : undefined), []);
  // How far the end of the thread was below what the user saw when earlier messages were asked for.
  const below = useRef<number | null>(null);
  const messages = conversation?.messages ?? [];
  useLayoutEffect(() => {
    if (log.current && below.current !== null) log.current.scrollTop = log.current.scrollHeight - below.current;
    below.current = null;
  }, [messages[0]?.id]);
  const showEarlier = (): void => {
    if (log.current) below.current = log.current.scrollHeight - log.current.scrollTop;
    void loadOlder().catch(() => undefined);
  };
  const [stopping, setStopping] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const stopTurn = (id: string | null): void => {
    setStopping(id);
    setProblem("");
    stop().catch((error: Error) => {
      setStopping(null);
      setProblem(error.message);
    });
  };
  const ending = running ? "good" : endingOf(ended.path, kindOf(ended.ending?.outcome_category));
  const answered = messages.at(-1);
  const isFailed = ending === "failed" && answered !== undefined && answered.decision_id === ended.decisionId && !turn?.failure;
  const asked = messages.findLast((message) => message.role === "user" && !isByCode(message));
  // An answer to a card is given on a card, and a tool that has failed may have changed something.
  const canRetry = asked !== undefined && !asked.in_card && ended.ending?.outcome_category === "ERROR:RESPONSE_GENERATION";
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [messages.at(-1)?.id, turn?.key, running, isFailed]);
  // A notice may be about a change whose outcome is learned later.
  const answerOf = new Map(messages.filter((one) => one.role === "assistant").map((one) => [one.decision_id, one]));
  const undoable = messages.filter((one) => one.role === "assistant" && (one.effects?.length || one.notices?.length)).slice(-UNDOABLE);
  const undoOf = (message: StoredMessage | undefined): VNode | false =>
    message !== undefined && undoable.includes(message) && <Undo message={message} busy={running} latest={answered?.id ?? ""} />;
  // An answer that says more than its card is a message with the buttons of its own.
  const undoInCard = (answer: StoredMessage | undefined): VNode | false => answer?.in_card === true && undoOf(answer);
  // The server stores the user's message when the turn begins; until it is fetched it is shown from the turn.
  const unsaved = turn && !messages.some((message) => message.decision_id === turn.decisionId) ? turn : null;
  return (
    <div class="thread" ref={log} role="log" aria-label="Messages" tabindex={0}>
      <Disclosure />
      {conversation?.has_more && (
        <button type="button" class="more" onClick={showEarlier}>
          Earlier messages
        </button>
      )}
      {messages.filter((message) => !message.in_card || !isSaid(message, messages)).map((message) => (
        <StoredItem
          key={message.id}
          message={message}
          chosen={message.decision_id === chosen}
          onChoose={() => onChoose(message.decision_id)}
          isNotice={ending === "cap" && message.decision_id === ended.decisionId}
          card={
            message.card && (
              <QuestionCard
                card={message.card}
                busy={running}
                onAnswer={onAnswer}
                onWithdraw={onWithdraw}
                label={message.approval ? "Approval" : "Confirmation"}
                hint="You can also write yes or no."
                undo={undoInCard(answerOf.get(message.card.answered_in ?? ""))}
              />
            )
          }
          undo={!message.in_card && undoOf(message)}
        />
      ))}
      {unsaved && !unsaved.message.answers && (
        <article class="message user">
          <p class="content">
            <Visible text={unsaved.message.content ?? ""} />
          </p>
        </article>
      )}
      {isFailed && <Cause decisionId={answered.decision_id} onRetry={canRetry ? () => onRetry(asked.content) : null} />}
      {running && (
        <div class="running">
          {turn && <Begun visits={ended.path} />}
          <Step visits={turn ? ended.path : []} progress={turn?.progress ?? null} />
          {turn?.decisionId && (
            <button type="button" disabled={stopping === turn.decisionId} onClick={() => stopTurn(turn.decisionId)}>
              Stop
            </button>
          )}
          {problem && <p class="quiet">{problem}</p>}
        </div>
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

/** Keep the end in sight while something is added or the window changes, until the user scrolls up. */
function followEnd(thread: HTMLElement): () => void {
  let isAtEnd = true;
  const look = (): void => void (isAtEnd = thread.scrollHeight - thread.scrollTop - thread.clientHeight < NEAR_END);
  const follow = (): void => void (isAtEnd && (thread.scrollTop = thread.scrollHeight));
  const added = new MutationObserver(follow);
  const resized = new ResizeObserver(follow);
  thread.addEventListener("scroll", look);
  added.observe(thread, { childList: true, subtree: true });
  resized.observe(thread);
  return () => {
    thread.removeEventListener("scroll", look);
    added.disconnect();
    resized.disconnect();
  };
}

/** What the model has asked for in the running turn, as it happens: with its arguments, its verdict, and the receipt of a change. */
function Begun({ visits }: { visits: readonly Visit[] }): VNode | null {
  const calls = visits.flatMap((visit, index) => {
    // The guard judges a batch as a whole; until then its calls are those of the model.
    const isJudged = visits.slice(index).some(({ state }) => state === "APPEND_RESULTS");
    const asked = (isJudged ? [] : (visit.model?.asks ?? [])).map((ask) => ({ ...ask, kind: "running" as const, reason: null }));
    const judged = visit.calls.map((call) => ({ ...call, kind: verdictOf(call) }));
    return [...asked, ...judged, ...visit.receipts];
  });
  if (calls.length === 0) return null;
  return (
    <ul class="begun" aria-label="Actions of this turn">
      {calls.map((call, index) =>
        typeof call === "string" ? (
          <li key={index} class="receipt">
            <Visible text={call} />
          </li>
        ) : (
          <li key={index} class={`note-item ${call.kind}`}>
            <span class="sign" aria-hidden="true">
              <Sign of={call.kind} />
            </span>
            <span>
              <Visible text={call.title} />{" "}
              <span class="quiet">
                <Visible text={brief(call.arguments)} />
              </span>
              {call.reason && (
                <span class="note-reason">
                  <Visible text={call.reason} />
                </span>
              )}
            </span>
          </li>
        ),
      )}
    </ul>
  );
}

/** True if the card that says a message is among those that are shown. */
function isSaid({ decision_id: id }: StoredMessage, messages: readonly StoredMessage[]): boolean {
  return messages.some(({ card, decision_id }) => card && (decision_id === id || card.says?.includes(id)));
}

/** True in a turn that no message of the user has begun, such as the end of a request for approval. */
function isByCode({ authors }: StoredMessage): boolean {
  return authors?.message === "code";
}

interface ItemProps {
  readonly message: StoredMessage;
  readonly card: VNode | null;
  readonly chosen: boolean;
  /** True for a reply of code, such as at the cap. */
  readonly isNotice: boolean;
  readonly onChoose: () => void;
  readonly undo: VNode | false;
}

function StoredItem({ message, card, chosen, isNotice, onChoose, undo }: ItemProps): VNode {
  const answer = message.role === "assistant";
  return (
    <article class={`message ${message.role} ${chosen ? "chosen" : ""} ${!answer && isByCode(message) ? "event" : ""}`}>
      <Boundary
        instead={
          <p class="content">
            <Visible text={message.content} />
          </p>
        }
      >
        {card ?? (
          <div class={isNotice && answer ? "notice" : "content"}>
            <Reply text={message.content} parts={message.authors?.reply} />
          </div>
        )}
        <CodeLines {...message} />
        {undo}
      </Boundary>
      {answer && (
        <footer>
          <time dateTime={message.created_at} title={fullTime(message.created_at)}>
            {shortTime(message.created_at)}
          </time>
          <span class="quiet">{byline(message.authors)}</span>
          <a href={addressOf(`/decisions/${message.decision_id}`)}>Decision</a>
          <button type="button" class="plain" aria-pressed={chosen} onClick={onChoose}>
            Path
          </button>
        </footer>
      )}
    </article>
  );
}
