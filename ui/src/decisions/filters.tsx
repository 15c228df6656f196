// The filters of the list. They are in the address, so a filtered list has a link and the back button undoes a choice.
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import type { components } from "../shared/schema";
import { about, hasTasks } from "../shared/about";
import { serverNow } from "../shared/clock";
import { words } from "../shared/format";
import { navigate, query } from "../shared/router";

type DecisionType = components["schemas"]["DecisionType"];
type IntentType = components["schemas"]["IntentType"];

const OUTCOMES = ["SUCCESS", "AMBIGUITY", "REFUSAL", "ERROR", "PENDING"];
const TYPES: readonly DecisionType[] = [
  "RESPOND_ONLY",
  "INVOKE_TOOL",
  "ASK_CLARIFICATION",
  "REQUEST_CONFIRMATION",
  "EXECUTE_PENDING",
  "CANCEL_PENDING",
];
const INTENTS: readonly IntentType[] = [
  "CREATE_TASK",
  "LIST_TASKS",
  "COMPLETE_TASK",
  "UPDATE_TASK",
  "DELETE_TASK",
  "MULTI_INTENT",
  "GENERAL_CHAT",
  "AMBIGUOUS",
  "CONFIRM_YES",
  "CONFIRM_NO",
];
const HOURS: Readonly<Record<string, number>> = { hour: 1, day: 24, week: 168, month: 720 };

const FIELDS = ["outcome", "decision_type", "intent_type", "status", "model", "conversation_id", "refused"] as const;

/** The filters in the address as a query of the API. */
export function apiQuery(): URLSearchParams {
  const wanted = new URLSearchParams();
  for (const field of FIELDS) {
    const value = query.value.get(field);
    if (value) wanted.set(field, value);
  }
  const hours = HOURS[query.value.get("within") ?? ""];
  if (hours) wanted.set("since", new Date(serverNow() - hours * 3_600_000).toISOString());
  return wanted;
}

export function filtered(): boolean {
  return [...FIELDS, "within"].some((field) => query.value.has(field));
}

export function Filters(): VNode {
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <Choice name="outcome" label="Outcome" options={OUTCOMES} />
      <Choice name="decision_type" label="Type" options={TYPES} />
      {/* Keeps its place until the server has said whether there are tasks. */}
      {(hasTasks() || !about.value) && <Choice name="intent_type" label="Intent" options={INTENTS} pending={!about.value} />}
      <Choice name="refused" label="Calls" options={["true", "false"]} show={(value) => (value === "true" ? "some refused" : "none refused")} />
      <Choice name="within" label="Within" options={Object.keys(HOURS)} />
      <label>
        Decision id
        <input
          type="search"
          placeholder="paste and press Enter"
          onKeyDown={(event) => {
            const id = event.currentTarget.value.trim();
            if (event.key === "Enter" && id) navigate(`/decisions/${encodeURIComponent(id)}`);
          }}
        />
      </label>
      {query.value.has("conversation_id") && <span class="chip">one conversation</span>}
      {filtered() && <a href={addressOf("/decisions")}>Clear</a>}
    </form>
  );
}

interface ChoiceProps {
  readonly name: string;
  readonly label: string;
  readonly options: readonly string[];
  readonly show?: (option: string) => string;
  readonly pending?: boolean;
}

function Choice({ name, label, options, show = words, pending = false }: ChoiceProps): VNode {
  const value = query.value.get(name) ?? "";
  return (
    <label class={pending ? "pending" : undefined}>
      {label}
      <select
        name={name}
        value={value}
        onChange={(event) => {
          const next = new URLSearchParams(query.value);
          if (event.currentTarget.value) next.set(name, event.currentTarget.value);
          else next.delete(name);
          navigate(`/decisions${next.size > 0 ? `?${next}` : ""}`);
        }}
      >
        <option value="">any</option>
        {options.map((option) => (
          <option key={option} value={option}>
            {show(option)}
          </option>
        ))}
      </select>
    </label>
  );
}
