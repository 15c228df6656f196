// The link to the inbox in the bar, with the number of questions that wait for the user.
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { openCount, useInbox } from "./store";

/** The greatest number that the server counts to. */
const MANY = 100;

export function InboxLink({ current }: { current: boolean }): VNode {
  useInbox(current);
  const count = openCount.value;
  return (
    <a href={addressOf("/inbox")} {...(current ? { "aria-current": "page" as const } : {})}>
      Inbox
      {count > 0 && (
        <span class="badge">
          {count < MANY ? count : `${MANY}+`}
          <span class="visually-hidden">{count === 1 ? " question waits" : " questions wait"}</span>
        </span>
      )}
    </a>
  );
}
