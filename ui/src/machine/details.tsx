// What was done in one state: the request to the model and its response, and the verdict and the outcome of every call.
import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren, VNode } from "preact";
import { getJson } from "../shared/client";
import type { JudgedCall, LLMMessage, ModelRequest, VisitedState } from "../shared/client";
import { duration, words } from "../shared/format";
import { Searchable } from "../shared/searchable";
import { Json, Visible } from "../shared/visible";
import { label } from "./layout";
import type { ToolCall } from "./calls";
import type { ModelCall, Visit } from "./path";

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

interface Props {
  readonly state: string;
  readonly visits: readonly Visit[];
  /** The decision once it is closed: its record has more than the events of the turn. */
  readonly decisionId: string | null;
}

export function StateDetails({ state, visits, decisionId }: Props): VNode {
  const own = visits.filter((visit) => visit.state === state);
  const recorded = useRecordedStates(decisionId).filter((one) => one.state === state);
  const section = useRef<HTMLElement>(null);
  useEffect(() => section.current?.scrollIntoView({ block: "nearest" }), [state]);
  return (
    <section ref={section} class="details" aria-label={`Details of ${label(state)}`} aria-live="polite">
      <h3>{label(state)}</h3>
      <p class="purpose">{PURPOSES[state] ?? ""}</p>
      {own.length === 0 && <p class="quiet">Not entered in this turn.</p>}
      {own.map((visit, index) => {
        const found = recorded[index];
        return (
          <div class="visit" key={index}>
            <p class="quiet">
              round {visit.round}
              {visit.cap !== null && ` of ${visit.cap}`}
              {visit.ms !== null && ` · ${duration(visit.ms)}`}
            </p>
            {visit.undoing && (
              <p>
                {visit.undoing.title} {visit.undoing.decision}
              </p>
            )}
            {found?.request && <Request request={found.request} />}
            {!found && visit.model && <ModelLine call={visit.model} />}
            {!found && visit.calls.map((call) => <CallLine key={call.sequence} call={call} />)}
            {visit.receipts.map((text, number) => (
              <p key={number} class="receipt">
                <Visible text={text} />
              </p>
            ))}
            {found?.response && (
              <Fold title="Response" end={words(found.response.error ?? found.response.finish_reason)}>
                <Json value={Object.fromEntries(Object.entries(found.response).filter(([, value]) => value !== null))} />
              </Fold>
            )}
            {found?.calls?.map((call) => <Call key={call.sequence} call={call} />)}
          </div>
        );
      })}
    </section>
  );
}

/** The states of a closed decision; empty until they are known, and if the record was pruned. */
function useRecordedStates(decisionId: string | null): readonly VisitedState[] {
  const [states, setStates] = useState<readonly VisitedState[]>([]);
  useEffect(() => {
    setStates([]);
    if (decisionId === null) return undefined;
    const abort = new AbortController();
    getJson<VisitedState[]>(`/api/decisions/${encodeURIComponent(decisionId)}/states`, abort.signal).then(setStates, () => undefined);
    return () => abort.abort();
  }, [decisionId]);
  return states;
}

function Fold({ title, end, children }: { title: string; end: string; children: ComponentChildren }): VNode {
  return (
    <details class="call">
      <summary>
        {title}
        <span class="quiet end">{end}</span>
      </summary>
      {children}
    </details>
  );
}

function Request({ request }: { request: ModelRequest }): VNode {
  const tools = (
    <Searchable label="Search the tools offered" items={request.tools} textOf={(name) => name}>
      {(found) => <Json value={found.join(", ")} />}
    </Searchable>
  );
  const fields: [string, unknown][] = [
    ["System prompt", `${request.system_instruction}…\n(digest ${request.system_digest.slice(0, 12)})`],
    ["Tools offered", tools],
    ["Tool choice", request.tool_choice],
    ...request.messages.map((message): [string, unknown] => [`Message: ${message.role}`, content(message)]),
  ];
  return (
    <Fold title="Request" end={`messages: ${request.messages.length} · tools: ${request.tools.length}`}>
      {fields.map(([name, value], index) => (
        <Fragment key={index}>
          <h3>{name}</h3>
          {value === tools ? tools : <Json value={value} />}
        </Fragment>
      ))}
    </Fold>
  );
}

function content({ content: text, function_calls: calls, function_response: result }: LLMMessage): unknown {
  if (result) return result;
  return calls ? { ...(text && { text }), calls } : text;
}

function Call({ call }: { call: JudgedCall }): VNode {
  return (
    <details class="call">
      <summary>
        <code>
          <Visible text={call.tool_name} />
        </code>
        <span class={`verdict ${call.verdict}`}>
          {words(call.verdict)}
          {call.gate && ` at ${call.gate}`}
        </span>
        {call.duration_ms != null && <span class="quiet end">{duration(call.duration_ms)}</span>}
      </summary>
      <dl class="arguments">
        {call.reason && (
          <>
            <dt>Reason</dt>
            <dd>
              {call.error_code && `${words(call.error_code)}: `}
              <Visible text={call.reason} />
            </dd>
          </>
        )}
        <dt>Ledger</dt>
        <dd class="ledger">{call.ledger ? words(call.ledger) : "not sent"}</dd>
      </dl>
      <h3>Arguments</h3>
      <Json value={call.arguments} />
      {Object.entries(call.sources).map(([name, found]) => (
        <p key={name} class="quiet">
          <Visible text={`${name}: from ${found.join(" and ")}`} />
        </p>
      ))}
      {call.result != null && (
        <>
          <h3>Result</h3>
          <Json value={call.result} />
        </>
      )}
    </details>
  );
}

function ModelLine({ call }: { call: ModelCall }): VNode {
  return (
    <p>
      Response: {words(call.error ?? call.finish_reason)}
      {call.asks.length > 0 && (
        <>
          {" · "}
          <Visible text={call.asks.map(({ title }) => title).join(", ")} />
        </>
      )}
    </p>
  );
}

function CallLine({ call }: { call: ToolCall }): VNode {
  return (
    <p>
      <Visible text={call.title} />{" "}
      <span class={`verdict ${call.disposition}`}>
        {words(call.disposition)}
        {call.gate && ` at ${call.gate}`}
        {call.error_code && ` · ${words(call.error_code)}`}
      </span>
    </p>
  );
}
