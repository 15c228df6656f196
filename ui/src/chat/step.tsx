// The step of a running turn: what runs, since when, and what its tool has reported.
import type { VNode } from "preact";
import { label } from "../machine/layout";
import type { Visit } from "../machine/path";
import { now } from "../clock";
import { duration } from "../shared/format";
import { Visible } from "../shared/visible";
import type { ToolProgress } from "./turn";

/** The step is said at once by a screen reader, and its seconds are not. */
export function Step({ visits, progress }: { visits: readonly Visit[]; progress: ToolProgress | null }): VNode {
  const last = visits.at(-1);
  const begun = last?.begun.at(-1);
  const since = begun?.since ?? last?.since ?? null;
  return (
    <>
      <p class="working" role="status">
        Working
        {last && (
          <span class="step">
            : {begun?.title ? <Visible text={begun.title} /> : label(last.state)}
            {last.cap !== null && last.round > 1 && `, round ${last.round} of ${last.cap}`}
          </span>
        )}
      </p>
      {since !== null && <Since since={since} />}
      {progress && <Report progress={progress} />}
    </>
  );
}

/** Read apart from the rest, which then is not drawn again with each tick. */
function Since({ since }: { since: number }): VNode {
  const seconds = Math.floor(Math.max(0, now.value - since) / 1000);
  return (
    <span class="quiet since" aria-hidden="true">
      {seconds > 0 && duration(seconds * 1000)}
    </span>
  );
}

/** What the running tool has reported. */
export function Report({ progress: { done, total, message } }: { progress: ToolProgress }): VNode {
  return (
    <div class="report">
      <progress max={total ?? 1} {...(total === null ? {} : { value: done })} aria-label="Progress of the tool" />
      <p class="quiet" role="status">
        {label("EXECUTE_TOOLS")}: {total === null ? done : `${done} of ${total}`}
        {message && (
          <>
            , <Visible text={message} />
          </>
        )}
      </p>
    </div>
  );
}
