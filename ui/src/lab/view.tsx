// The policy lab: rules are changed here and nowhere else, and tried on recorded decisions and on every possible call.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { copy } from "../shared/download";
import { useLoaded } from "../shared/loading";
import { ErrorState, Loading } from "../shared/states";
import { OneDecision } from "./one_decision";
import { Analysis } from "./analysis";
import { Columns } from "./columns";
import { FlowPanel, Sentence } from "./flow_panel";
import { flows } from "./flows";
import { RulesPanel } from "./rules_panel";
import { edit, isEdited, link, loadRules, textOf, tried, writeAddress } from "./texts";

export function LabView({ id }: { id: string | null }): VNode {
  const { value, error, retry } = useLoaded(loadRules, []);
  useEffect(() => {
    if (value) void writeAddress();
  }, [value, edit.value, id]);
  if (error) return <ErrorState error={error} retry={retry} />;
  if (!value) return <Loading what="the rules" />;
  return id === null ? <Lab /> : <OneDecision key={id} id={id} rules={<RulesPanel />} />;
}

function Lab(): VNode {
  const current = flows.value;
  return (
    <main class="replay lab" tabindex={0}>
      <header class="view-title">
        <h1>Policy lab</h1>
        <p class="quiet">Change a rule and see what it changes, offline and without effect. The rules in force stay as they are.</p>
        {isEdited() && <CopyLink />}
      </header>
      <Columns rules={<RulesPanel />}>
        <FlowPanel />
        <Analysis edit={tried.value} hasPromises={textOf("promises") !== ""} />
      </Columns>
      {isEdited() && current && (
        <p class="lab-result" aria-hidden="true">
          <Sentence current={current} />
        </p>
      )}
    </main>
  );
}

function CopyLink(): VNode {
  const [said, setSaid] = useState("");
  const copyLink = async (): Promise<void> => {
    const address = `${window.location.origin}${addressOf("/lab")}${await link()}`;
    setSaid((await copy(address, "link.txt")) ? "Copied." : "Saved as a file.");
  };
  return (
    <div class="actions">
      <span class="quiet" role="status">
        {said}
      </span>
      <button type="button" onClick={() => void copyLink()}>
        Copy the link
      </button>
    </div>
  );
}
