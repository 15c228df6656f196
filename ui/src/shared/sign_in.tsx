// What the page shows until the user has signed in.
import { useEffect, useState } from "preact/hooks";
import type { ComponentChildren, VNode } from "preact";
import { addressOf } from "./address";
import { ApiError, request, signIn, signInWay, signOutReason } from "./client";
import { beginSignIn, finishSignIn, returned } from "./oidc";

export function SignedOut(): VNode {
  switch (signInWay) {
    case "oidc":
      return <IssuerSignIn />;
    case "bearer":
      return <TokenPrompt />;
    default:
      return <LaunchLink />;
  }
}

function LaunchLink(): VNode {
  return (
    <SignInPage title="Open the link from your terminal">
      <p>
        This server serves one local user. When it started, it printed a link with a token in the terminal. Open that link in this
        browser: it is then signed in until you close it or sign out. A server that was started again has the same link.
      </p>
      <p>
        The link looks like this; its token is in your terminal only. The sign-in belongs to the host in it: <code>localhost</code> and{" "}
        <code>127.0.0.1</code> are two hosts.
      </p>
      <pre>{window.location.origin + addressOf("/")}?token=…</pre>
    </SignInPage>
  );
}

function TokenPrompt(): VNode {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  // The server gives the browser a session for it, so that no script keeps it.
  const exchange = async (): Promise<void> => {
    setProblem("");
    try {
      await request("/api/session", { method: "POST", headers: { authorization: `Bearer ${token.trim()}` } });
      signIn();
    } catch (error) {
      const isRefused = error instanceof ApiError && error.status === 401;
      setProblem(isRefused ? "This server does not accept that token: it is wrong, or it has expired." : (error as Error).message);
    }
  };
  return (
    <SignInPage title="Sign in">
      <p>Paste a bearer token. This browser is then signed in until the token expires, for 8 hours at most.</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (token.trim()) void exchange();
        }}
      >
        <label>
          Token
          <input
            type="password"
            autocomplete="off"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
      {problem && (
        <p class="failure" role="alert">
          {problem}
        </p>
      )}
    </SignInPage>
  );
}

function IssuerSignIn(): VNode {
  const [busy, setBusy] = useState(returned());
  const [problem, setProblem] = useState("");
  const run = (work: () => Promise<void>): void => {
    setBusy(true);
    setProblem("");
    work().catch((error: Error) => {
      setBusy(false);
      setProblem(error.message);
    });
  };
  useEffect(() => {
    if (returned()) run(finishSignIn);
  }, []);
  return (
    <SignInPage title="Sign in">
      <p>You sign in with your account and come back here. Every tab of this browser is then signed in.</p>
      <button type="button" class="primary" disabled={busy} onClick={() => run(beginSignIn)}>
        {busy ? "Signing in…" : "Sign in"}
      </button>
      {problem && <p role="alert">{problem}</p>}
    </SignInPage>
  );
}

function SignInPage({ title, children }: { title: string; children: ComponentChildren }): VNode {
  return (
    <main class="signed-out">
      <h1>{title}</h1>
      {signOutReason.value && (
        <p class="failure" role="alert">
          {signOutReason.value}
        </p>
      )}
      {children}
    </main>
  );
}
