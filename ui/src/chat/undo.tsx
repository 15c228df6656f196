// The buttons of what a message has changed: Undo, for as long as its line in the constitution says, and Do this again, which opens
// the form of a plan. Both ask: a yes does it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson, request } from "../shared/client";
import type { ChatReply, StoredMessage, UndoState } from "../shared/client";
import { now } from "../clock";
import { remaining } from "../shared/format";
import { Visible } from "../shared/visible";
import type { PlanForm } from "./plan_form";
import { announce, loadConversations, open, opened } from "./store";

/** The decisions of which nothing can be undone any more, each with whether a plan can do it again. */
const final = new Map<string, boolean>();

interface Props {
  readonly message: StoredMessage;
  readonly busy: boolean;
  /** The latest message: after it another change may have been undone. */
  readonly latest: string;
}

export function Undo({ message: { decision_id: id }, busy, latest }: Props): VNode | null {
  const [until, setUntil] = useState<number | null>(null);
  const [again, setAgain] = useState(false);
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState("");
  // The form of the plan while it is open. Its code is loaded when it is first opened.
  const [Form, setForm] = useState<typeof PlanForm | null>(null);
  const opener = useRef<HTMLButtonElement>(null);
  // If the answer is lost, the next click is the same request.
  const key = useRef("");
  // The question that was asked last, until it is shown.
  const question = useRef("");
  useEffect(() => {
    setProblem("");
    if (final.has(id)) {
      setAgain(final.get(id) === true);
      return setUntil(null);
    }
    const abort = new AbortController();
    getJson<UndoState>(`/api/decisions/${id}/undo`, abort.signal).then(
      (found) => {
        if (found.calls.length === 0 && !found.unknown) final.set(id, found.again);
        setAgain(found.again);
        setUntil(found.until === null ? null : Date.parse(found.until));
      },
      // Without an answer there is no button.
      () => undefined,
    );
    return () => abort.abort();
  }, [id, latest]);
  const show = async (reply: ChatReply): Promise<void> => {
    question.current = reply.decision.pending_action?.id ?? "";
    announce(reply.conversation_id);
    await Promise.all([opened.value?.id === reply.conversation_id && open(reply.conversation_id), loadConversations()]);
  };
  const undo = async (): Promise<void> => {
    setAsking(true);
    setProblem("");
    key.current ||= crypto.randomUUID();
    try {
      const response = await request(`/api/decisions/${id}/undo`, { method: "POST", headers: { "Idempotency-Key": key.current } });
      key.current = "";
      await show((await response.json()) as ChatReply);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code !== "OFFLINE") key.current = "";
      if (error.code === "NOT_UNDOABLE") setUntil(null);
      setProblem(error.message);
    } finally {
      setAsking(false);
    }
  };
  const openForm = async (): Promise<void> => {
    setProblem("");
    try {
      const { PlanForm: loaded } = await import("./plan_form");
      setForm(() => loaded);
    } catch {
      setProblem("The form could not be loaded. Load the page again.");
    }
  };
  const closeForm = (): void => {
    setForm(null);
    opener.current?.focus();
  };
  const afterQuestion = async (reply: ChatReply): Promise<void> => {
    await show(reply);
    setForm(null);
    if (!reply.decision.pending_action) opener.current?.focus();
  };
  const left = until === null ? 0 : until - now.value;
  const pending = opened.value?.pending_action ?? null;
  const isAsked = pending?.undoes?.decision_id === id;
  useLayoutEffect(() => {
    // The button or the form goes, and with it the focus: the keyboard goes on at the question.
    if (!pending || pending.id !== question.current) return;
    question.current = "";
    document.querySelector<HTMLElement>(`[data-question="${pending.id}"]`)?.focus({ preventScroll: true });
  }, [pending?.id]);
  return (
    <>
      {left > 0 && !isAsked && (
        <button
          type="button"
          class="undo"
          disabled={busy || asking}
          onClick={() => void undo()}
        >
          Undo ({remaining(left)} left)
        </button>
      )}
      {again && (
        <button
          type="button"
          class="undo"
          ref={opener}
          aria-expanded={Form !== null}
          onClick={() => (Form ? closeForm() : void openForm())}
          onKeyDown={(event) => Form && event.key === "Escape" && closeForm()}
        >
          Do this again
        </button>
      )}
      {again && Form && <Form decisionId={id} busy={busy} onAsked={afterQuestion} onClose={closeForm} />}
      {problem && (
        <p class="failure" role="alert">
          <Visible text={problem} />
        </p>
      )}
    </>
  );
}
