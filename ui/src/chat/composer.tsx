// The field for a message: Enter sends, Shift+Enter begins a new line.
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";

const MAX_LENGTH = 4000;

interface Props {
  readonly busy: boolean;
  readonly conversationId: string | null;
  /** A message that was not answered: it is put back, unless the user has written something else meanwhile. */
  readonly unsent: string;
  readonly onSend: (content: string) => void;
}

export function Composer({ busy, conversationId, unsent, onSend }: Props): VNode {
  const [draft, setDraft] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    // The focus is not taken from what the user has chosen meanwhile.
    if (document.activeElement === document.body) field.current?.focus({ preventScroll: true });
  }, [conversationId]);
  useEffect(() => setDraft((written) => written || unsent), [unsent]);
  const submit = (): void => {
    const content = draft.trim();
    if (!content || busy) return;
    setDraft("");
    onSend(content);
  };
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
        maxLength={MAX_LENGTH}
        placeholder="Write a message"
        aria-label="Message"
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      <button type="submit" class="primary" disabled={busy || !draft.trim()}>
        Send
      </button>
    </form>
  );
}
