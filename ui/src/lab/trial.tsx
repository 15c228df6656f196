// What each rule in the shadow would have changed in the last decisions: `policy trial`, with the decisions.
import { useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { counted, integer } from "../shared/format";
import { Visible } from "../shared/visible";
import type { Flows, RuleTrial, Shadowed } from "./flows";

export function TrialOfShadow({ current: { edit, trial, shadowed } }: { current: Flows }): VNode | null {
  const rules = Object.entries(trial?.rules ?? {});
  if (!trial || rules.length === 0) return null;
  return (
    <section class="trial" aria-labelledby="trial">
      <h3 id="trial">Rules in the shadow</h3>
      <p class="quiet">
        {edit.conditions === undefined
          ? "What they would have changed, by the verdicts that the record has."
          : "What they would have changed. They decide nothing: each call ran, or was asked about, without them."}
      </p>
      <ul>
        {rules.map(([name, rule]) => (
          <Rule key={name} name={name} rule={rule} calls={shadowed.get(name) ?? []} />
        ))}
      </ul>
      {trial.ended_early > 0 && (
        <p class="quiet">{counted(trial.ended_early, "decision")} could not be tried to the end: the record does not have what would follow.</p>
      )}
    </section>
  );
}

function Rule({ name, rule, calls }: { name: string; rule: RuleTrial; calls: readonly Shadowed[] }): VNode {
  const [open, setOpen] = useState(false);
  return (
    <li>
      <button type="button" class="plain" aria-expanded={open} disabled={calls.length === 0} onClick={() => setOpen(!open)}>
        <strong>
          <Visible text={name} />
        </strong>{" "}
        {sentence(rule)}
      </button>
      {open && (
        <>
          <Counts title="By tool" counts={rule.by_tool} />
          <Counts title="By user" counts={rule.by_user} />
          <ol class="rows band-decisions" tabindex={0} aria-label={`Decisions of ${name}`}>
            {calls.map((one, index) => (
              <li key={index}>
                <a class="row what-if" href={addressOf(`/decisions/${one.decision_id}`)}>
                  <span class="row-text">
                    <Visible text={one.message} />
                  </span>
                  <span class={`verdict ${one.decision === "refused" ? "refused" : "awaiting"}`}>{one.said}</span>
                  <code>
                    <Visible text={one.call} />
                  </code>
                </a>
              </li>
            ))}
          </ol>
          {rule.asked + rule.waited + rule.refused + rule.unknown > calls.length && (
            <p class="quiet">The newest {integer(calls.length)} calls are shown.</p>
          )}
        </>
      )}
    </li>
  );
}

/** "would have refused 2 calls and asked about 1, in 3 of 40 decisions" */
function sentence({ asked, waited, refused, unknown, decisions, judged }: RuleTrial): string {
  if (judged === 0 && decisions === 0 && unknown === 0) return "was judged in none of these decisions: they were made without it";
  const others = waited ? `, ${integer(waited)} would have waited for other people` : "";
  const open = unknown ? `; not known for ${counted(unknown, "call")}: the record does not have what it reads` : "";
  const of = `${counted(judged, "decision")}${open}`;
  if (decisions === 0) return unknown ? `would have changed none of the other calls in ${of}` : `would have changed nothing in ${of}`;
  return `would have refused ${counted(refused, "call")} and asked about ${integer(asked)}${others}, in ${integer(decisions)} of ${of}`;
}

function Counts({ title, counts }: { title: string; counts: Readonly<Record<string, number>> }): VNode | null {
  const text = Object.entries(counts).map(([name, calls]) => `${name} ${integer(calls)}`);
  if (text.length === 0) return null;
  return (
    <p>
      <span class="quiet">{title}:</span> <Visible text={text.join(", ")} />
    </p>
  );
}
