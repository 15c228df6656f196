// The field for a message: Enter sends, Shift+Enter begins a new line.
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { integer } from "../shared/format";

export const MAX_LENGTH = 4000;

interface Props {
  readonly busy: boolean;
  readonly conversationId: string | null;
  /** A message that was not answered: it is put back, unless the user has written something else meanwhile. */
  readonly unsent: string;
  readonly onSend: (content: string) => void;
}

export function Composer({ busy, conversationId, unsent, onSend }: Props): VNode {
  const [draft, setDraft] = useState("");
  const [waits, setWaits] = useState(false);
  // Counted as the server counts: by characters, not by their UTF-16 halves.
  const length = draft.length > MAX_LENGTH ? [...draft.trim()].length : 0;
  const isTooLong = length > MAX_LENGTH;
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    // The focus is not taken from what the user has chosen meanwhile.
    if (document.activeElement === document.body) field.current?.focus({ preventScroll: true });
  }, [conversationId]);
  useEffect(() => setDraft((written) => written || unsent), [unsent]);
  const submit = (): void => {
    const content = draft.trim();
    setWaits(busy && content !== "");
    if (!content || busy || isTooLong) return;
    setDraft("");
    onSend(content);
  };
  const note = isTooLong
    ? `${integer(length)} characters: shorten the message to ${integer(MAX_LENGTH)} to send it.`
    : waits && busy && "Your last message is still being answered. Send this one when the answer is there, or stop the turn.";
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        ref={field}
        rows={1}
        value={draft}
        aria-describedby="composer-note"
        placeholder="Write a message"
        aria-label="Message"
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      <button type="submit" class="primary" disabled={busy || isTooLong || !draft.trim()}>
        Send
      </button>
      <p id="composer-note" class="note" role="status">
        {note}
      </p>
    </form>
  );
}
