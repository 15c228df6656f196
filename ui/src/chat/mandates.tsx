// The plans in force of a conversation: what each still permits, until when, and Stop, which revokes it.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { getJson, post, request } from "../shared/client";
import type { Mandate, MandateList } from "../shared/client";
import { now } from "../clock";
import { countdown, fullTime } from "../shared/format";
import { Visible } from "../shared/visible";

const EVERY_MS = 5000;

interface Props {
  readonly conversationId: string;
  /** The latest message: a turn may have drawn from a plan, or begun one. */
  readonly latest: string;
}

export function PlansInForce({ conversationId, latest }: Props): VNode | null {
  const [found, setFound] = useState<readonly Mandate[]>([]);
  const [failure, setFailure] = useState("");
  const load = (): Promise<void> =>
    getJson<MandateList>(`/api/mandates?conversation_id=${encodeURIComponent(conversationId)}`).then(
      ({ mandates }) => setFound(mandates.filter(({ state }) => state === "open")),
      // What was shown stays; the next look tries again.
      () => undefined,
    );
  useEffect(() => {
    void load();
    const timer = window.setInterval(() => document.visibilityState === "visible" && void load(), EVERY_MS);
    return () => window.clearInterval(timer);
  }, [conversationId, latest]);
  const stop = (id: string): void => {
    setFailure("");
    request(`/api/mandates/${encodeURIComponent(id)}/revoke`, post({})).then(load, (error: Error) => setFailure(error.message));
  };
  // One whose time is over covers nothing, also before the next look.
  const open = found.length > 0 ? found.filter(({ until }) => Date.parse(until) > now.value) : [];
  if (open.length === 0) return null;
  return (
    <section class="plans" aria-label="Plan in force" tabindex={0}>
      {open.map((plan) => (
        <div key={plan.id}>
          <header>
            <h2>{plan.job ? <Visible text={`Standing plan for the job ${plan.job}`} /> : "Plan in force"}</h2>
            {plan.job && (
              <span class="quiet">
                {plan.runs - plan.runs_drawn} of {plan.runs} runs left
              </span>
            )}
            <time class="time" dateTime={plan.until} title={fullTime(plan.until)}>
              {countdown(Date.parse(plan.until) - now.value)} left
            </time>
            <button type="button" onClick={() => stop(plan.id)}>
              Stop
            </button>
          </header>
          <ul>
            {plan.lines.map((line, index) => (
              <li key={index}>
                <Visible text={line.said} />{" "}
                {!plan.job && (
                  <span class="quiet">
                    {line.times - line.drawn} of {line.times} left
                  </span>
                )}
              </li>
            ))}
          </ul>
        </div>
      ))}
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
    </section>
  );
}
