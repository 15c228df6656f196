// The form of "Do this again": the plan that code makes from a decision, of which the user asks about all or less.
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ApiError, getJson, post, request } from "../shared/client";
import type { ChatReply, PlanOfDecision } from "../shared/client";
import { useLoaded } from "../shared/loading";
import { Loading } from "../shared/states";
import { Visible } from "../shared/visible";

/** In minutes: the time of a plan for a job is chosen in days. */
const DAY = 24 * 60;

interface Props {
  readonly decisionId: string;
  readonly busy: boolean;
  /** Show the question. The form is closed after it. */
  readonly onAsked: (reply: ChatReply) => Promise<void>;
  readonly onClose: () => void;
}

export function PlanForm({ decisionId, busy, onAsked, onClose }: Props): VNode {
  const path = `/api/decisions/${decisionId}/mandate`;
  const [job, setJob] = useState("");
  const { value: proposed, error } = useLoaded(
    async (signal) => ({ ...(await getJson<PlanOfDecision>(`${path}?job=${encodeURIComponent(job)}`, signal)), job }),
    [path, job],
  );
  // The lines that are ticked, as JSON; null for all. What a job changes of a plan is not ticked once the user has chosen.
  const [chosen, setChosen] = useState<ReadonlySet<string> | null>(null);
  // In minutes, or in days for a job; null for the usual time.
  const [time, setTime] = useState<string | null>(null);
  // For a job; empty for as many as the server permits in that time.
  const [runs, setRuns] = useState("");
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState("");
  // If the answer is lost, the same choice is the same request.
  const sent = useRef({ body: "", key: "" });
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.focus(), []);
  useEffect(() => form.current?.scrollIntoView({ block: "nearest" }), [proposed === null]);

  const plan = proposed?.plan ?? null;
  const lines = plan?.lines.map((line, index) => ({ line, key: JSON.stringify(line), said: proposed?.said[index] ?? "" })) ?? [];
  const ticked = lines.filter(({ key }) => chosen === null || chosen.has(key));
  const unit = proposed?.job ? DAY : 1;
  const usual = (proposed?.usual_minutes ?? 0) / unit;
  // The plan for a job may have other lines than the one that is shown until it is loaded.
  const isShown = proposed?.job === job && error === null;

  const tick = (key: string, isTicked: boolean): void => {
    const others = ticked.map((one) => one.key).filter((one) => one !== key);
    setChosen(new Set(isTicked ? [...others, key] : others));
  };
  const ask = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (!isShown || asking) return;
    setAsking(true);
    setProblem("");
    const choice = {
      ...(ticked.length < lines.length && { lines: ticked.map(({ line }) => line) }),
      ...(time !== null && Number(time) !== usual && { minutes: Number(time) * unit }),
      ...(job && { job }),
      ...(runs && { runs: Number(runs) }),
    };
    const body = JSON.stringify(choice);
    if (sent.current.body !== body) sent.current = { body, key: crypto.randomUUID() };
    try {
      const response = await request(path, post(choice, { "Idempotency-Key": sent.current.key }));
      await onAsked((await response.json()) as ChatReply);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      if (failure.code !== "OFFLINE") sent.current.body = "";
      setProblem(failure.message);
    } finally {
      setAsking(false);
    }
  };

  return (
    <form
      class="plan-form"
      ref={form}
      tabindex={-1}
      aria-label="Do this again"
      aria-busy={asking}
      onSubmit={(event) => void ask(event)}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      {!proposed && !error && <Loading what="the plan" />}
      {lines.length > 0 && (
        <fieldset>
          <legend>Plan, at most</legend>
          {lines.map(({ key, said }) => (
            <label key={key}>
              <input
                type="checkbox"
                checked={chosen === null || chosen.has(key)}
                onChange={(event) => tick(key, event.currentTarget.checked)}
              />
              <span>
                <Visible text={said} />
              </span>
            </label>
          ))}
        </fieldset>
      )}
      {(proposed?.problem ? [proposed.problem] : (proposed?.left_out ?? [])).map((text) => (
        <p key={text} class="notice">
          <Visible text={text} />
        </p>
      ))}
      {proposed && (
        <div class="fields">
          {plan && (
            <label>
              {unit === DAY ? "Days" : "Minutes"}, at most {plan.minutes / unit}
              <input
                type="number"
                required
                min={1}
                max={plan.minutes / unit}
                value={time ?? usual}
                onInput={(event) => setTime(event.currentTarget.value)}
              />
            </label>
          )}
          <label>
            For runs of the job (optional)
            <input
              type="text"
              maxLength={64}
              autocomplete="off"
              autocapitalize="off"
              spellcheck={false}
              onChange={(event) => {
                const name = event.currentTarget.value;
                if (!name !== !job) {
                  // The time is in another unit, and only a job has runs.
                  setTime(null);
                  setRuns("");
                }
                setJob(name);
              }}
            />
          </label>
          {plan && proposed.job && (
            <label>
              Runs, at most {plan.runs} (optional)
              <input type="number" min={1} max={plan.runs} value={runs} onInput={(event) => setRuns(event.currentTarget.value)} />
            </label>
          )}
        </div>
      )}
      {(problem || error) && (
        <p class="failure" role="alert">
          <Visible text={problem || (error?.message ?? "")} />
        </p>
      )}
      <div class="buttons">
        {plan && (
          // It keeps the focus while the plan for a job is loaded.
          <button type="submit" class="primary" disabled={busy || ticked.length === 0} aria-disabled={!isShown}>
            Ask
          </button>
        )}
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </form>
  );
}
