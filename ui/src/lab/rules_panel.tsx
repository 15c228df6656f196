// The rules as rows, and the texts that they come from. A change of either shows in the other.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import type { ConditionRow, ToolRow } from "../shared/client";
import { download } from "../shared/download";
import { WORDS } from "../shared/meanings";
import { Searchable } from "../shared/searchable";
import { Visible } from "../shared/visible";
import { CONDITIONS, withCondition } from "./edits";
import { changedLines } from "./lines";
import { statementAt, withOtherShadow, withoutStatement } from "./statements";
import { change, changeRow, edit, inForce, isEdited, PARTS, problem, rules, textOf, undo } from "./texts";
import type { Part } from "./texts";

const VERDICTS: readonly ToolRow["verdict"][] = ["runs", "asks", "refused"];
const TITLES: Readonly<Record<Part, string>> = { constitution: "Constitution", conditions: "Conditions", promises: "Promises" };
const FILES: Readonly<Record<Part, string>> = { constitution: "constitution.md", conditions: "policy.cedar", promises: "promises.cedar" };
const HINTS: Readonly<Record<Part, string>> = {
  constitution: "The text that the model reads. Its list of tools is the whitelist.",
  conditions: "They are written in Cedar and only restrict. The model does not read them.",
  promises: "forbid conditions in Cedar that no permitted call may match. They are checked, not in force.",
};

export function RulesPanel(): VNode {
  const rows = rules.value?.tools ?? [];
  return (
    <section class="block rules" aria-label="Rules">
      <div class="panel-title">
        <h2 title={WORDS["Constitution"]}>Rules</h2>
        {isEdited() ? (
          <button type="button" class="plain" onClick={undo}>
            Undo the changes
          </button>
        ) : (
          <span class="progress-text">in force</span>
        )}
      </div>
      <Searchable label="Search the tools" items={rows} textOf={(row) => row.name}>
        {(found) => (
          <ul class="rule-rows">
            {found.map((row) => (
              <Row key={row.name} row={row} />
            ))}
          </ul>
        )}
      </Searchable>
      <Texts />
    </section>
  );
}

function Row({ row }: { row: ToolRow }): VNode {
  const { verdict, max_per_message: limit } = row;
  const before = inForce.value?.tools.find(({ name }) => name === row.name);
  const isChanged = verdict !== before?.verdict || limit !== before.max_per_message;
  // What is typed stays until the server has answered.
  const [typed, setTyped] = useState<string | null>(null);
  useEffect(() => setTyped(null), [row]);
  return (
    <li class={isChanged ? "changed" : ""}>
      <span class="rule-name">
        <code>
          <Visible text={row.name} />
        </code>
        {row.proof && (
          <span class={`quiet ${row.proof === "none" ? "unknown" : ""}`} title={row.proof_meaning}>
            <span class="visually-hidden">After a lost answer: </span>
            {row.proof_word}
          </span>
        )}
      </span>
      <select
        class={`fate-text-${verdict}`}
        aria-label={`${row.name}: verdict`}
        value={verdict}
        onChange={(event) => changeRow(row.name, { verdict: event.currentTarget.value as ToolRow["verdict"] })}
      >
        {VERDICTS.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
      <label class="limit">
        at most
        <input
          type="number"
          min={1}
          max={999}
          placeholder="any"
          aria-label={`${row.name}: calls per message`}
          disabled={row.line === null}
          value={typed ?? limit ?? ""}
          onInput={(event) => {
            setTyped(event.currentTarget.value);
            const given = Math.trunc(event.currentTarget.valueAsNumber);
            changeRow(row.name, { max_per_message: given >= 1 && given <= 999 ? given : null });
          }}
        />
      </label>
      <select
        class="add-condition"
        aria-label={`${row.name}: add a condition`}
        value=""
        onChange={(event) => {
          const name = event.currentTarget.value;
          event.currentTarget.value = "";
          if (name) change("conditions", withCondition(textOf("conditions"), row.name, name));
        }}
      >
        <option value="">+ condition</option>
        {Object.keys(CONDITIONS)
          .filter((name) => !row.conditions.some((one) => one.name === `${row.name}: ${name}`))
          .map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
      </select>
      {(row.conditions.length > 0 || (row.why && row.line !== null)) && (
        <ul class="conditions">
          {row.why && row.line !== null && (
            <li class="quiet">
              <Visible text={row.why} />
            </li>
          )}
          {row.conditions.map((one) => (
            <Condition key={one.number} condition={one} tool={row.name} />
          ))}
        </ul>
      )}
    </li>
  );
}

function Condition({ condition, tool }: { condition: ConditionRow; tool: string }): VNode {
  const { name, number } = condition;
  const text = textOf("conditions");
  // The rows are those of the last text that could be used.
  const own = statementAt(text, rules.value?.conditions ?? "", number);
  const isShadow = own ? own.shadow.length > 0 : condition.shadow;
  return (
    <li class={isShadow ? "in-shadow" : ""}>
      <Visible text={name.replace(`${tool}: `, "")} />
      <button
        type="button"
        role="switch"
        class="plain"
        aria-checked={isShadow}
        aria-label={`Shadow: ${name}`}
        title={WORDS["Shadow"]}
        disabled={!own}
        onClick={() => own && change("conditions", withOtherShadow(text, own, inForce.value?.conditions ?? ""))}
      >
        <span aria-hidden="true">{isShadow ? "●" : "○"}</span> shadow
      </button>
      <button
        type="button"
        class="plain"
        aria-label={`Remove the condition ${name}`}
        disabled={!own}
        onClick={() => own && change("conditions", withoutStatement(text, own))}
      >
        ×
      </button>
    </li>
  );
}

function Texts(): VNode {
  const [part, setPart] = useState<Part>("constitution");
  const wrong = problem.value;
  const original = inForce.value?.[part] ?? "";
  const changes = edit.value[part] === undefined ? [] : changedLines(original, textOf(part));
  return (
    <div class="editor">
      <div class="ranges" role="group" aria-label="Text">
        {PARTS.map((one) => (
          <button key={one} type="button" aria-pressed={one === part} onClick={() => setPart(one)}>
            {TITLES[one]}
            {edit.value[one] !== undefined && <span class="visually-hidden"> (edited)</span>}
            {edit.value[one] !== undefined && <span aria-hidden="true"> •</span>}
          </button>
        ))}
      </div>
      {wrong && (
        <p class="failure" role="alert">
          <Visible text={wrong.message} />
        </p>
      )}
      <textarea
        aria-label={TITLES[part]}
        spellcheck={false}
        placeholder={part === "constitution" ? "" : "none"}
        value={textOf(part)}
        onInput={(event) => change(part, event.currentTarget.value)}
      />
      {edit.value[part] !== undefined && (
        <button type="button" class="plain" onClick={() => download(FILES[part], "text/plain", textOf(part))}>
          Download {FILES[part]}
        </button>
      )}
      {changes.length > 0 ? (
        <ul class="changed-lines" aria-label="Changed lines">
          {changes.map((line, index) => (
            <li key={index} class={line.kind}>
              <Visible text={line.text || " "} />
            </li>
          ))}
        </ul>
      ) : (
        <p class="quiet">{HINTS[part]}</p>
      )}
    </div>
  );
}
