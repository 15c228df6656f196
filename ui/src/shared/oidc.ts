// Signing in at an OIDC issuer with an authorization code and PKCE. Our own server exchanges the code and keeps the secret of
// PKCE in a cookie, so that the page sends no request to another origin and sees no token.
import { addressOf, ownName } from "./address";
import { RETURN_PATH, getJson, post, request, signIn } from "./client";
import type { SignInStart } from "./client";
import { navigate, path } from "./router";

const STORAGE_KEY = ownName("sign_in");
const RETURN_ADDRESS = window.location.origin + addressOf(RETURN_PATH);

/** What this tab must know when the browser comes back. */
interface Started {
  readonly state: string;
  /** The view to show afterwards. */
  readonly view: string;
}

/** True if the browser has just come back from the issuer. */
export function returned(): boolean {
  return path.value === RETURN_PATH;
}

/** Send the browser to the issuer. */
export async function beginSignIn(): Promise<void> {
  if (!window.isSecureContext) throw new Error("Signing in needs https.");
  const { authorization_endpoint, client_id, scope, state, code_challenge } = await getJson<SignInStart>("/api/sign-in");
  const started: Started = { state, view: path.value + window.location.search };
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify(started));
  const url = new URL(authorization_endpoint);
  const asked = {
    response_type: "code",
    client_id,
    scope,
    redirect_uri: RETURN_ADDRESS,
    state,
    code_challenge,
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  window.location.assign(url);
}

/** Exchange the code in the address for a session. */
export async function finishSignIn(): Promise<void> {
  const answer = new URLSearchParams(window.location.search);
  const stored = sessionStorage.getItem(STORAGE_KEY);
  sessionStorage.removeItem(STORAGE_KEY);
  const started = stored === null ? null : (JSON.parse(stored) as Started);
  // The code leaves the address bar and the history.
  navigate(started?.view ?? "/chat", true);
  const code = answer.get("code");
  // Without this check a link from elsewhere could sign the user in to another account.
  if (!started || answer.get("state") !== started.state) throw new Error("That sign-in was not begun in this tab. Please sign in here.");
  if (code === null) throw new Error("You were not signed in.");
  await request("/api/sign-in", post({ code, state: started.state, redirect_uri: RETURN_ADDRESS }));
  signIn();
}
