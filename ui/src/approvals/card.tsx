// The user's own requests of one conversation: their state and time, and when one ends, what became of it.
import { useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import type { ApprovalSummary } from "../shared/client";
import { shortTime } from "../shared/format";
import { Visible } from "../shared/visible";
import { cancelApproval, listApprovals } from "./store";
import { useEvery } from "./view";

interface Props {
  readonly conversation: string;
  readonly onEnded: () => void;
}

export function OwnRequests({ conversation, onEnded }: Props): VNode {
  const [open, setOpen] = useState<readonly ApprovalSummary[]>([]);
  const closed = useRef<number | null>(null);
  useEvery(
    () =>
      void listApprovals("own").then(
        (found) => {
          const own = found.filter((one) => one.conversation_id === conversation);
          setOpen(own.filter((one) => one.state === "open"));
          const ended = own.filter((one) => one.closing_decision !== null).length;
          if (closed.current !== null && ended > closed.current) onEnded();
          closed.current = ended;
        },
        () => undefined,
      ),
    [conversation],
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
          <div class="buttons">
            <button type="button" onClick={() => void cancelApproval(one.id).catch(() => undefined)}>
              Withdraw
            </button>
            <a href={addressOf(`/approvals/${one.id}`)}>Details</a>
          </div>
        </section>
      ))}
    </>
  );
}
