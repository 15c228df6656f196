// The page: its views by URL.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import type { VNode } from "preact";
import { ChatView, prepareChat } from "./chat/view";
import { DecisionView } from "./decisions/one";
import { DecisionsView, prepareDecisions } from "./decisions/list";
import { BehaviorView } from "./behavior/view";
import { HelpView } from "./help/view";
import { InboxLink } from "./inbox/link";
import type { InboxView } from "./inbox/view";
import type { DecisionRulesView } from "./decisions/rules";
import type { LabView } from "./lab/view";
import { about, isOperator, loadAbout, Starting } from "./shared/about";
import { Account } from "./shared/account";
import { addressOf } from "./shared/address";
import { Boundary } from "./boundary";
import { Brand, NAME } from "./shared/brand";
import { signedIn } from "./shared/client";
import { Later } from "./shared/later";
import "./shared/keys";
import { follow, navigate, path } from "./shared/router";
import { SignedOut } from "./shared/sign_in";
import { Loading, OfflineBanner } from "./shared/states";
import { StopBanner } from "./shared/stops";
import "./style.css";

const TITLES: Readonly<Record<string, string>> = {
  chat: "Chat",
  inbox: "Inbox",
  decisions: "Decisions",
  lab: "Lab",
  behavior: "Behavior",
  help: "Help",
  "signed-in": "Signing in",
};
const VIEWS = ["chat", "inbox", "decisions", "lab", "behavior"];
const OPERATOR_VIEWS = ["lab", "behavior"];

/** True for the views of end users; those of operators are shown when the server has said that the user is one. */
function isShown(view: string): boolean {
  return !OPERATOR_VIEWS.includes(view) || isOperator();
}

function Page(): VNode {
  const [view, id, part, ...rest] = path.value.split("/").filter(Boolean);
  const isView = rest.length === 0 && (part === undefined || (view === "decisions" && part === "rules"));
  const name = isView ? (view ?? "chat") : "";
  useEffect(() => {
    if (signedIn.value) void loadAbout();
  }, [signedIn.value]);
  useEffect(() => {
    if (path.value === "/") navigate("/chat", true);
    document.title = `${TITLES[name] ?? "Not found"} · ${NAME}`;
  }, [name]);
  return (
    <div class="page" onClick={follow}>
      <header class="bar">
        <Brand />
        <nav aria-label="Views">
          {VIEWS.filter(isShown).map((view) =>
            view === "inbox" ? (
              <InboxLink key={view} current={name === view} />
            ) : (
              <ViewLink key={view} href={`/${view}`} current={name === view} text={TITLES[view] ?? view} />
            ),
          )}
        </nav>
        {signedIn.value && <Account />}
      </header>
      <OfflineBanner />
      <StopBanner />
      <Starting />
      {signedIn.value ? (
        <Boundary key={name} instead={<Broken />}>
          <View name={name} id={id ?? null} part={part ?? null} />
        </Boundary>
      ) : (
        <SignedOut />
      )}
    </div>
  );
}

const loadInboxView = async (): Promise<typeof InboxView> => (await import("./inbox/view")).InboxView;
const loadDecisionRules = async (): Promise<typeof DecisionRulesView> => (await import("./decisions/rules")).DecisionRulesView;
const loadLab = async (): Promise<typeof LabView> => (await import("./lab/view")).LabView;

function View({ name, id, part }: { name: string; id: string | null; part: string | null }): VNode {
  if (!isShown(name)) return about.value ? <NotFound /> : <Loading what="the view" />;
  switch (name) {
    case "decisions":
      if (part === "rules") return <Later load={loadDecisionRules} id={id} />;
      return id === null ? <DecisionsView /> : <DecisionView id={id} />;
    case "inbox":
      return <Later load={loadInboxView} id={id} />;
    case "lab":
      return <Later load={loadLab} id={id} />;
    case "behavior":
      return <BehaviorView />;
    case "help":
      return <HelpView />;
    case "chat":
      return <ChatView id={id} />;
    default:
      return <NotFound />;
  }
}

function Broken(): VNode {
  return (
    <main class="state-text">
      <h1>This view cannot be shown</h1>
      <p>Something in it is not as this page expects it. The other views work; nothing was changed.</p>
      <p>
        <button type="button" onClick={() => window.location.reload()}>
          Load it again
        </button>
      </p>
    </main>
  );
}

function NotFound(): VNode {
  return (
    <main class="state-text">
      <h1>Not found</h1>
      <p>There is no page at this address.</p>
      <p>
        <a class="button" href={addressOf("/chat")}>
          Go to the chat
        </a>
      </p>
    </main>
  );
}

function ViewLink({ href, current, text }: { href: string; current: boolean; text: string }): VNode {
  return (
    <a href={addressOf(href)} {...(current ? { "aria-current": "page" as const } : {})}>
      {text}
    </a>
  );
}

/** Fetches what a view shows first, before the view is drawn: it is then drawn once. */
type Prepare = (signal: AbortSignal) => Promise<void>;
const PREPARE: Readonly<Record<string, Prepare>> = { "/": prepareChat, "/chat": prepareChat, "/decisions": prepareDecisions };
const PREPARE_MS = 150;

/** Wait until the frame of index.html is painted. A hidden tab paints nothing, so there is nothing to wait for. */
function painted(): Promise<unknown> {
  return document.hidden ? Promise.resolve() : new Promise((resolve) => requestAnimationFrame(() => window.setTimeout(resolve)));
}

/** Fetch what the view shows first; without an answer in time the view is drawn, and fetches it itself. */
function prepared(): Promise<unknown> {
  const prepare = signedIn.value ? PREPARE[path.value] : undefined;
  if (!prepare) return Promise.resolve();
  const abort = new AbortController();
  const late = new Promise((resolve) => window.setTimeout(resolve, PREPARE_MS)).then(() => abort.abort());
  return Promise.race([Promise.all([prepare(abort.signal), loadAbout()]).catch(() => undefined), late]);
}

await Promise.all([painted(), prepared()]);
render(<Page />, document.body);
