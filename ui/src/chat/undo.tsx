// The buttons of what a message has changed: Undo, for as long as its line in the constitution says, and Do this again, which a
// plan does. Both ask: a yes does it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson, request } from "../shared/client";
import type { StoredMessage, UndoState } from "../shared/client";
import { now } from "../clock";
import { remaining } from "../shared/format";
import { Visible } from "../shared/visible";
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
  // If the answer is lost, the next click is the same request.
  const keys = useRef<Record<string, string>>({});
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
  const ask = async (about: "undo" | "mandate"): Promise<void> => {
    setAsking(true);
    setProblem("");
    const key = (keys.current[about] ??= crypto.randomUUID());
    const conversation = opened.value?.id;
    try {
      await request(`/api/decisions/${id}/${about}`, { method: "POST", headers: { "Idempotency-Key": key } });
      delete keys.current[about];
      if (!conversation) return;
      announce(conversation);
      await Promise.all([open(conversation), loadConversations()]);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code !== "OFFLINE") delete keys.current[about];
      if (error.code === "NOT_UNDOABLE") setUntil(null);
      if (error.code === "NOT_REPEATABLE") setAgain(false);
      setProblem(error.message);
    } finally {
      setAsking(false);
    }
  };
  const left = until === null ? 0 : until - now.value;
  const pending = opened.value?.pending_action ?? null;
  const isAsked = pending?.undoes?.decision_id === id;
  useLayoutEffect(() => {
    // The button goes, and with it the focus: the keyboard goes on at the question.
    if (isAsked && asking) document.querySelector<HTMLElement>(`[data-question="${pending.id}"]`)?.focus({ preventScroll: true });
  }, [isAsked]);
  return (
    <>
      {left > 0 && !isAsked && (
        <button
          type="button"
          class="undo"
          disabled={busy || asking}
          onClick={() => void ask("undo")}
        >
          Undo ({remaining(left)} left)
        </button>
      )}
      {again && (
        <button
          type="button"
          class="undo"
          disabled={busy || asking}
          onClick={() => void ask("mandate")}
        >
          Do this again
        </button>
      )}
      {problem && (
        <p class="failure" role="alert">
          <Visible text={problem} />
        </p>
      )}
    </>
  );
}
