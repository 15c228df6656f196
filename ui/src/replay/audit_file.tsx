// One decision as one HTML file that needs nothing else: what was decided, by which rules, and what a replay says.
import { render } from "preact";
import type { VNode } from "preact";
import type { DecisionDetail } from "../shared/client";
import { Answer, Calls, Facts, Findings, ModelCalls } from "../decisions/one";
import { Outcome, titleOf } from "../decisions/row";
import { Visible } from "../shared/text";
import { Comparison } from "./comparison";
import type { Edit } from "../lab/texts";
import type { Report } from "./reports";

const POLICY = "default-src 'none'; style-src 'unsafe-inline'";

interface Props {
  readonly detail: DecisionDetail;
  readonly constitution: string;
  /** The record as it is stored, with the texts it references. */
  readonly record: string;
  readonly unchanged: Report;
  readonly whatIf: Report | null;
  readonly edit: Edit;
}

/** The text of the file. Everything in it was rendered as text, so it contains no code of users, models or tools. */
export function auditFile(props: Props): string {
  const root = document.createElement("div");
  render(<AuditReport {...props} />, root);
  // On paper and without the server: everything is open, and nothing links to the page.
  for (const details of root.querySelectorAll("details")) details.open = true;
  for (const link of root.querySelectorAll("a")) link.replaceWith(...link.childNodes);
  // A button does nothing there, because the file has no script.
  for (const button of root.querySelectorAll("button")) {
    const row = document.createElement("div");
    row.className = button.className;
    row.append(...button.childNodes);
    button.replaceWith(row);
  }
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText));
  const html = root.innerHTML;
  render(null, root);
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`,
    `<title>Decision ${props.detail.decision_id}</title><style>${rules.join("\n")}</style></head>`,
    `<body class="audit-file">${html}</body></html>`,
  ].join("\n");
}

function AuditReport({ detail, constitution, record, unchanged, whatIf, edit }: Props): VNode {
  return (
    <main>
      <header class="view-title">
        <h1>
          <Visible text={titleOf(detail)} />
        </h1>
        <Outcome outcome={detail.outcome_category} type={detail.decision_type} />
        <p class="quiet">Written {new Date().toISOString()} by graph_agent.</p>
      </header>
      <div class="facts">
        <Answer detail={detail} />
        <Findings found={detail.findings} />
        <Calls invocations={detail.tool_invocations} />
        <ModelCalls calls={detail.llm_calls} />
        <Facts detail={detail} />
        <section>
          <h1>Replay</h1>
          <Comparison unchanged={unchanged} whatIf={null} />
        </section>
        {whatIf && (
          <section>
            <h1>With other rules</h1>
            <Comparison unchanged={unchanged} whatIf={whatIf} />
          </section>
        )}
        <TextBlock title="Constitution" text={constitution} />
        {edit.constitution && <TextBlock title="The other constitution" text={edit.constitution} />}
        {edit.conditions && <TextBlock title="The other conditions" text={edit.conditions} />}
        <TextBlock title="Stored record" text={record} />
      </div>
    </main>
  );
}

function TextBlock({ title, text }: { title: string; text: string }): VNode {
  return (
    <section class="block">
      <h2>{title}</h2>
      <pre>
        <Visible text={text} />
      </pre>
    </section>
  );
}
