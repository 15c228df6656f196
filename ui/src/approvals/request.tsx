// A question in a list, and the parts of one that are shown there and in its own view.
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import type { QuestionSummary, ShownFact } from "../shared/client";
import { shortTime } from "../shared/format";
import { textOf } from "../shared/json";
import { Visible } from "../shared/visible";

export function when(one: QuestionSummary): string {
  return one.state === "open" ? `until ${shortTime(one.expires_at)}` : shortTime(one.ended_at ?? one.created_at);
}

/** The classes of its card: amber only while it waits. */
export function cardOf({ state }: QuestionSummary): string {
  return `card ${state === "open" ? "" : `closed ${state}`}`;
}

/** A question in a list. It is answered where all of it is shown. */
export function Listed({ request: one }: { request: QuestionSummary }): VNode {
  return (
    <article class={cardOf(one)} aria-label="Request">
      <header>
        <h2>{one.state_words}</h2>
        <span class="time">{when(one)}</span>
      </header>
      <p class="change">
        <Visible text={one.description} />
      </p>
      <Grounds request={one} />
      <p class="quiet">
        <Visible text={one.requester} />
        {" · "}
        <a href={addressOf(`/inbox/${one.id}`)}>Read all of it</a>
      </p>
    </article>
  );
}

/** A name with its text, and a line about the origin of an argument. The words of a server are set as such. */
export function Row({ name, text, origin, by }: { name: string; text: string; origin?: string; by?: "server" }): VNode {
  return (
    <>
      <dt>
        <Visible text={name} />
      </dt>
      <dd>
        <span {...(by && { class: `by-${by}`, title: "by a server" })}>
          <Visible text={text} />
        </span>
        {origin && (
          <span class="quiet origin">
            <Visible text={origin} />
          </span>
        )}
      </dd>
    </>
  );
}

/** The time at which the values of now were read. */
export function LookedUp({ at }: { at: string }): VNode {
  return <Row name="Looked up at" text={shortTime(at)} />;
}

/** Where the arguments come from, and what the rules read of a server about the call. */
function Grounds({ request }: { request: QuestionSummary }): VNode | null {
  const origins = Object.entries(request.origins);
  if (origins.length === 0 && request.facts.length === 0) return null;
  return (
    <dl>
      {origins.map(([name, origin]) => (
        <Row key={name} name={name} text={origin} />
      ))}
      <Facts facts={request.facts} />
    </dl>
  );
}

/** The facts of then, and those of now that differ. */
export function Facts({ facts, now }: { facts: readonly ShownFact[]; now?: readonly ShownFact[] | null }): VNode {
  const then = facts.map((fact) => [titleOf(fact), valuesOf(fact)] as const);
  const changed = (now ?? [])
    .map((fact) => [titleOf(fact), valuesOf(fact)] as const)
    .filter(([title, values]) => !then.some(([known, before]) => known === title && before === values));
  return (
    <>
      {then.map(([title, values]) => (
        <Row key={title} name={title} text={values} by="server" />
      ))}
      {changed.map(([title, values]) => (
        <Row key={`now ${title}`} name={`${title}, now`} text={values} by="server" />
      ))}
    </>
  );
}

function titleOf({ name, about }: ShownFact): string {
  return [name, ...(about ?? []).map((value) => textOf(value))].join(" ");
}

function valuesOf({ values, missing }: ShownFact): string {
  const shown = Object.entries(values ?? {}).map(([path, value]) => (path ? `${path}: ${textOf(value)}` : textOf(value)));
  return missing || shown.join("\n") || "found";
}
