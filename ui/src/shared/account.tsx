// The signed-in user, in the bar: who it is, the help, and signing out.
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "./address";
import { getJson, request, signOut } from "./client";
import type { Session } from "./client";
import { StopEverything } from "./stops";
import { visible } from "./visible";

/** Asked for when the view is there, which it must not delay. */
const PAUSE_MS = 300;

export function Account(): VNode {
  const [user, setUser] = useState("");
  useEffect(() => {
    const timer = window.setTimeout(() => {
      getJson<Session>("/api/session").then(
        (session) => setUser(session.user_id),
        () => undefined,
      );
    }, PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, []);
  const leave = async (): Promise<void> => {
    await request("/api/session", { method: "DELETE" });
    signOut();
  };
  return (
    <>
      <button type="button" class="account" popovertarget="account" title="Account and help">
        <span class="user">{user ? visible(user) : "Account"}</span>
      </button>
      {/* A choice closes it. */}
      <div id="account" popover="auto" onClick={(event) => event.currentTarget.hidePopover()}>
        {user && (
          <p class="quiet">
            Signed in as <strong>{visible(user)}</strong>
          </p>
        )}
        <StopEverything />
        <a href={addressOf("/help")}>What do the words mean?</a>
        <button type="button" onClick={() => void leave().catch(() => undefined)}>
          Sign out
        </button>
      </div>
    </>
  );
}
