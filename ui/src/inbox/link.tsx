// The link to the inbox in the bar, with the number of questions and of requests for approval that wait.
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { approvals, openCount, useInbox } from "./store";

export function InboxLink({ current }: { current: boolean }): VNode {
  useInbox(current);
  const questions = openCount.value;
  const requests = approvals.value?.length ?? 0;
  const count = questions + requests;
  const kind = requests === 0 ? " question" : questions === 0 ? " approval" : "";
  return (
    <a href={addressOf("/inbox")} {...(current ? { "aria-current": "page" as const } : {})}>
      Inbox
      {count > 0 && (
        <span class="badge">
          {count}
          <span class="visually-hidden">
            {kind}
            {kind && count > 1 && "s"} {count === 1 ? "waits" : "wait"}
          </span>
        </span>
      )}
    </a>
  );
}
