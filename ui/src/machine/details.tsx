// What was done in one state: the model's response, and the verdict on every call.
import { useEffect, useRef } from "preact/hooks";
import type { VNode } from "preact";
import { duration, words } from "../shared/format";
import { Visible } from "../shared/text";
import { label } from "./layout";
import type { Action, Visit } from "./path";

const PURPOSES: Readonly<Record<string, string>> = {
  BUILD_REQUEST: "Opens the record, reads an answer to a pending action, and builds the request to the model.",
  INVOKE_LLM: "Calls the model once. Its response is recorded before anything acts on it.",
  CHECK_RESPONSE: "Checks the response: a reply, tool calls, or a failure.",
  EXECUTE_TOOLS: "The guard judges every call; permitted calls run in order.",
  APPEND_RESULTS: "Gives every call exactly one result.",
  CHECK_ITERATIONS: "Counts the round and compares it with the cap.",
  TIMEOUT_RESPONSE: "Says that the cap was reached, and what was done.",
  ERROR_RESPONSE: "Gives the fixed reply for a failure.",
  BUILD_DECISION: "Composes the decision and closes the record.",
};

export function StateDetails({ state, visits }: { state: string; visits: readonly Visit[] }): VNode {
  const own = visits.filter((visit) => visit.state === state);
  const section = useRef<HTMLElement>(null);
  useEffect(() => section.current?.scrollIntoView({ block: "nearest" }), [state]);
  return (
    <section ref={section} class="details" aria-label={`Details of ${label(state)}`} aria-live="polite">
      <h3>{label(state)}</h3>
      <p class="purpose">{PURPOSES[state] ?? ""}</p>
      {own.length === 0 && <p class="quiet">Not entered in this turn.</p>}
      {own.map((visit, index) => (
        <div class="visit" key={index}>
          <p class="quiet">
            round {visit.iteration} of {visit.cap}
            {visit.ms !== null && ` · ${duration(visit.ms)}`}
          </p>
          {visit.actions.map((action, number) => (
            <ActionLine key={number} action={action} />
          ))}
        </div>
      ))}
    </section>
  );
}

function ActionLine({ action }: { action: Action }): VNode {
  switch (action.kind) {
    case "model_call":
      return (
        <p>
          Response: {words(action.finish_reason)}
          {action.error && <> · {words(action.error)}</>}
          {action.calls.length > 0 && (
            <>
              {" · "}
              <Visible text={action.calls.join(", ")} />
            </>
          )}
        </p>
      );
    case "tool_call":
      return (
        <p>
          <Visible text={action.title} />{" "}
          <span class={`verdict ${action.disposition}`}>
            {words(action.disposition)}
            {action.error_code && ` · ${words(action.error_code)}`}
          </span>
        </p>
      );
    case "receipt":
      return (
        <p class="receipt">
          <Visible text={action.text} />
        </p>
      );
  }
}
