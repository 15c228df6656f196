// The page: its views by URL.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import type { VNode } from "preact";
import { ChatView } from "./chat/view";
import { DecisionView } from "./decisions/one";
import { DecisionsView } from "./decisions/list";
import { signedIn, signInWay, signOut } from "./shared/client";
import { follow, navigate, path } from "./shared/router";
import { OfflineBanner, SignedOut } from "./shared/states";
import "./style.css";

function Page(): VNode {
  const [view, id] = path.value.split("/").filter(Boolean);
  const name = view ?? "chat";
  useEffect(() => {
    if (path.value === "/") navigate("/chat", true);
    document.title = `${name === "decisions" ? "Decisions" : "Chat"} · graph_agent`;
  }, [name]);
  return (
    <div class="page" onClick={follow}>
      <header class="bar">
        <a class="brand" href="/chat">
          <img src="/page/icon.svg" alt="" width="22" height="22" />
          graph_agent
        </a>
        <nav aria-label="Views">
          <ViewLink href="/chat" current={name === "chat"} text="Chat" />
          <ViewLink href="/decisions" current={name === "decisions"} text="Decisions" />
        </nav>
        {signInWay === "bearer" && signedIn.value && (
          <button type="button" class="plain" onClick={signOut}>
            Sign out
          </button>
        )}
      </header>
      <OfflineBanner />
      {!signedIn.value ? (
        <SignedOut />
      ) : name === "decisions" ? (
        id ? (
          <DecisionView id={id} />
        ) : (
          <DecisionsView />
        )
      ) : (
        <ChatView id={id ?? null} />
      )}
    </div>
  );
}

function ViewLink({ href, current, text }: { href: string; current: boolean; text: string }): VNode {
  return (
    <a href={href} {...(current ? { "aria-current": "page" as const } : {})}>
      {text}
    </a>
  );
}

render(<Page />, document.body);
