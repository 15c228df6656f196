// What an operator has stopped: a banner for all whom it concerns, and for operators the button that stops everything.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson, post, request, signedIn, whenSignedOut } from "./client";
import type { OpenStops } from "./client";
import { visible } from "./visible";

const FIRST_MS = 900;
const EVERY_MS = 10_000;

const known = signal<OpenStops | null>(null);

whenSignedOut(() => (known.value = null));

async function load(): Promise<void> {
  const found = await getJson<OpenStops>("/api/stops");
  if (signedIn.value) known.value = found;
}

/** Says what is stopped, and lets operators resume it. */
export function StopBanner(): VNode | null {
  useEffect(() => {
    if (!signedIn.value) return undefined;
    const ask = (): void => {
      if (document.visibilityState === "visible") void load().catch(() => undefined);
    };
    // After the first view, which it must not delay.
    const first = window.setTimeout(ask, FIRST_MS);
    const timer = window.setInterval(ask, EVERY_MS);
    document.addEventListener("visibilitychange", ask);
    return () => {
      window.clearTimeout(first);
      window.clearInterval(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  }, [signedIn.value]);
  const stops = known.value?.stops ?? [];
  if (stops.length === 0) return null;
  return (
    <section class="stops" role="alert" aria-label="Stopped">
      {stops.map((stop) => (
        <div key={stop.number}>
          <p>
            {stop.say ? visible(stop.say) : "This was stopped by the operator."}
            {known.value?.may_stop && (
              <span class="quiet">
                {" "}
                Stop {stop.number}, {stop.changes_only ? "changes of " : ""}
                {stop.scope} {visible(stop.name ?? "")}: {visible(stop.reason ?? "")}
              </span>
            )}
          </p>
          {known.value?.may_stop && (
            <WithReason
              label="Resume"
              send={(reason) => request(`/api/stops/${stop.number}?reason=${encodeURIComponent(reason)}`, { method: "DELETE" })}
            />
          )}
        </div>
      ))}
    </section>
  );
}

/** The form that stops everything, for operators. */
export function StopEverything(): VNode | null {
  if (!known.value?.may_stop) return null;
  return <WithReason label="Stop everything" send={(reason) => request("/api/stops", post({ reason }))} />;
}

function WithReason({ label, send }: { label: string; send: (reason: string) => Promise<unknown> }): VNode {
  const [problem, setProblem] = useState("");
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    try {
      await send(String(new FormData(form).get("reason")));
      setProblem("");
      form.reset();
      await load();
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : "This did not work.");
    }
  };
  return (
    // A choice closes the popover around it; this form is none.
    <form class="with-reason" onClick={(event) => event.stopPropagation()} onSubmit={(event) => void submit(event)}>
      <input name="reason" required maxLength={500} placeholder="Reason" aria-label={`Reason: ${label}`} />
      <button type="submit">{label}</button>
      {problem && <p role="alert">{visible(problem)}</p>}
    </form>
  );
}
