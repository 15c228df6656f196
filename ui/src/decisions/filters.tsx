// The filters of the list. They are in the address, so a filtered list has a link and the back button undoes a choice.
import { useRef } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import type { components } from "../shared/schema";
import { about, hasTasks, wordsOf } from "../shared/about";
import { serverNow } from "../clock";
import { words } from "../shared/format";
import { navigate, query } from "../shared/router";
import { visible } from "../shared/visible";

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

/** The filters without a field of their own: each is shown as a chip that removes it. */
const CHIPS: Readonly<Record<string, (value: string) => string>> = {
  user_id: (value) => `user ${value}`,
  model: (value) => `model ${value}`,
  constitution: (value) => `constitution ${value.slice(0, 8)}`,
  conversation_id: () => "one conversation",
  question: () => "one question",
  status: (value) => words(value),
};
const FIELDS = ["search", "outcome", "decision_type", "intent_type", "refused", ...Object.keys(CHIPS)];
const CUSTOM = "custom";
const BOUNDS = { since: "From", until: "To" } as const;
const TYPED_MS = 300;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The filters in the address as a query of the API. */
export function apiQuery(): URLSearchParams {
  const wanted = new URLSearchParams();
  for (const field of FIELDS) {
    const value = query.value.get(field);
    if (value) wanted.set(field, value);
  }
  const hours = HOURS[query.value.get("within") ?? ""];
  if (hours) wanted.set("since", new Date(serverNow() - hours * 3_600_000).toISOString());
  if (query.value.get("within") === CUSTOM) {
    for (const bound of Object.keys(BOUNDS)) {
      const at = query.value.get(bound);
      if (at) wanted.set(bound, at);
    }
  }
  return wanted;
}

export function filtered(): boolean {
  return [...FIELDS, "within"].some((field) => query.value.has(field));
}

/** Show the list with other filters; an empty value removes one. */
function change(changes: Readonly<Record<string, string>>, replace = false): void {
  navigate(addressWith(changes), replace);
}

function addressWith(changes: Readonly<Record<string, string>>): string {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  return `/decisions${next.size > 0 ? `?${next}` : ""}`;
}

export function Filters(): VNode {
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <Search />
      <Choice name="outcome" label="Outcome" options={OUTCOMES} />
      <Choice name="decision_type" label="Type" options={TYPES} />
      {/* Keeps its place until the server has said whether there are tasks. */}
      {(hasTasks() || !about.value) && <Choice name="intent_type" label="Intent" options={INTENTS} show={words} pending={!about.value} />}
      <Choice name="refused" label="Calls" options={["true", "false"]} show={(value) => (value === "true" ? "some refused" : "none refused")} />
      <Choice name="within" label="Within" options={[...Object.keys(HOURS), CUSTOM]} show={words} />
      {query.value.get("within") === CUSTOM && (
        <>
          <Bound name="since" />
          <Bound name="until" />
        </>
      )}
      {Object.entries(CHIPS).map(([name, text]) => {
        const value = query.value.get(name);
        return (
          value && (
            <a key={name} class="chip" href={addressOf(addressWith({ [name]: "" }))} title="Remove this filter">
              {visible(text(value))} <span aria-hidden="true">×</span>
            </a>
          )
        );
      })}
      {filtered() && <a href={addressOf("/decisions")}>Clear</a>}
    </form>
  );
}

/** Words of the message, the reply or the arguments; an id leads to its decision. */
function Search(): VNode {
  const typing = useRef(0);
  return (
    <label class="search-field">
      Search
      <input
        type="search"
        placeholder="words, or a decision id"
        maxLength={200}
        value={query.value.get("search") ?? ""}
        onInput={(event) => {
          const { value } = event.currentTarget;
          window.clearTimeout(typing.current);
          // Not trimmed: the field shows what the address has, and the next word may follow.
          typing.current = window.setTimeout(() => {
            if (!ID.test(value.trim())) change({ search: value.trim() && value }, query.value.has("search"));
          }, TYPED_MS);
        }}
        onKeyDown={(event) => {
          const value = event.currentTarget.value.trim();
          if (event.key !== "Enter") return;
          window.clearTimeout(typing.current);
          if (ID.test(value)) navigate(`/decisions/${value.toLowerCase()}`);
          else change({ search: value });
        }}
      />
    </label>
  );
}

/** One end of a period of one's own, in the time of this browser. */
function Bound({ name }: { name: keyof typeof BOUNDS }): VNode {
  const at = new Date(query.value.get(name) ?? "");
  const local = Number.isNaN(at.getTime()) ? "" : new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  return (
    <label>
      {BOUNDS[name]}
      <input
        type="datetime-local"
        value={local}
        onChange={(event) => {
          const given = new Date(event.currentTarget.value);
          change({ [name]: Number.isNaN(given.getTime()) ? "" : given.toISOString() });
        }}
      />
    </label>
  );
}

interface ChoiceProps {
  readonly name: string;
  readonly label: string;
  readonly options: readonly string[];
  readonly show?: (option: string) => string;
  readonly pending?: boolean;
}

function Choice({ name, label, options, show = wordsOf, pending = false }: ChoiceProps): VNode {
  const value = query.value.get(name) ?? "";
  return (
    <label class={pending ? "pending" : undefined}>
      {label}
      <select
        name={name}
        value={value}
        onChange={(event) => change({ [name]: event.currentTarget.value })}
      >
        <option value="">any</option>
        {options.map((option) => (
          <option key={option} value={option} title={option}>
            {show(option)}
          </option>
        ))}
      </select>
    </label>
  );
}
