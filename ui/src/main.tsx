// The page: its views by URL.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import type { VNode } from "preact";
import { ChatView } from "./chat/view";
import { DecisionView } from "./decisions/one";
import { DecisionsView } from "./decisions/list";
import { BehaviorView } from "./behavior/view";
import { ReplayView } from "./replay/view";
import { Brand } from "./shared/brand";
import { signedIn, signInWay, signOut } from "./shared/client";
import { follow, navigate, path } from "./shared/router";
import { SignedOut } from "./shared/sign_in";
import { OfflineBanner } from "./shared/states";
import "./style.css";

const VIEWS: readonly (readonly [name: string, title: string])[] = [
  ["chat", "Chat"],
  ["decisions", "Decisions"],
  ["replay", "Replay"],
  ["behavior", "Behavior"],
];

function Page(): VNode {
  const [view, id] = path.value.split("/").filter(Boolean);
  const name = view ?? "chat";
  useEffect(() => {
    if (path.value === "/") navigate("/chat", true);
    document.title = `${VIEWS.find(([view]) => view === name)?.[1] ?? "Chat"} · graph_agent`;
  }, [name]);
  return (
    <div class="page" onClick={follow}>
      <header class="bar">
        <Brand />
        <nav aria-label="Views">
          {VIEWS.map(([view, title]) => (
            <ViewLink key={view} href={`/${view}`} current={name === view} text={title} />
          ))}
        </nav>
        {signInWay !== "link" && signedIn.value && (
          <button type="button" class="plain" onClick={signOut}>
            Sign out
          </button>
        )}
      </header>
      <OfflineBanner />
      {signedIn.value ? <View name={name} id={id ?? null} /> : <SignedOut />}
    </div>
  );
}

function View({ name, id }: { name: string; id: string | null }): VNode {
  switch (name) {
    case "decisions":
      return id === null ? <DecisionsView /> : <DecisionView id={id} />;
    case "replay":
      return <ReplayView id={id} />;
    case "behavior":
      return <BehaviorView />;
    default:
      return <ChatView id={id} />;
  }
}

function ViewLink({ href, current, text }: { href: string; current: boolean; text: string }): VNode {
  return (
    <a href={href} {...(current ? { "aria-current": "page" as const } : {})}>
      {text}
    </a>
  );
}

// The frame of index.html is painted first. A hidden tab paints nothing, so there is nothing to wait for.
if (document.hidden) render(<Page />, document.body);
else requestAnimationFrame(() => window.setTimeout(() => render(<Page />, document.body)));
