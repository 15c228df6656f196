// The changes of an earlier decision that a decision undoes, one below the other: what each restores, and what stays.
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { words } from "../shared/format";
import { textOf } from "../shared/json";
import { Visible } from "../shared/visible";
import { verdictOf } from "./calls";
import { WAITING } from "./score";
import type { Undoing, UndoingCall } from "./undo";

/** `linked` where the decision can be opened. */
export function Undoes({ undoing, linked = false }: { undoing: Undoing; linked?: boolean }): VNode {
  const { title, decision, calls, stays } = undoing;
  return (
    <section class="block undoing">
      <h2>
        {title} {linked ? <a href={addressOf(`/decisions/${decision}`)}>{decision}</a> : <Visible text={decision} />}
      </h2>
      <ol>
        {calls.map((call) => (
          <li key={call.undone.sequence}>
            <Call {...call} />
          </li>
        ))}
      </ol>
      {stays.map((text) => (
        <p key={text}>
          <Visible text={text} />
        </p>
      ))}
    </section>
  );
}

function Call({ undone: { sequence, restored }, text, made }: UndoingCall): VNode {
  const verdict = made && verdictOf(made);
  return (
    <>
      <span class="call-words">
        <Visible text={text} />
      </span>{" "}
      <span class="quiet">undoes its call {sequence}</span>{" "}
      {verdict && <span class={`verdict ${verdict}`}>{verdict === "awaiting" ? WAITING : words(verdict)}</span>}
      {made?.reason && verdict !== "awaiting" && (
        <p>
          <Visible text={made.reason} />
        </p>
      )}
      {restored &&
        Object.entries(restored.before).map(([path, before]) => (
          <p key={path} class="quiet">
            <Visible text={`${[words(restored.tool), ...Object.values(restored.arguments).map((value) => textOf(value))].join(" ")}: ${path} was `} />
            <Value of={before} /> before the change, which left it at <Value of={restored.left[path]} />
          </p>
        ))}
    </>
  );
}

/** The words of a server. */
function Value({ of: value }: { of: unknown }): VNode {
  return (
    <span class="by-server">
      <Visible text={typeof value === "string" ? `'${value}'` : textOf(value)} />
    </span>
  );
}
