// The states of a view that has nothing to show yet: loading, failed; and the banner of a lost connection.
import { useEffect } from "preact/hooks";
import type { VNode } from "preact";
import { online, request } from "./client";
import type { ApiError } from "./client";

export function Loading({ what }: { what: string }): VNode {
  return (
    <p class="state-text loading" role="status">
      Loading {what}…
    </p>
  );
}

export function ErrorState({ error, retry }: { error: ApiError; retry: () => void }): VNode {
  return (
    <div class="state-text" role="alert">
      <h2>{error.status === 404 ? "Not found" : error.status === 403 ? "Not yours" : "This did not work"}</h2>
      <p>{error.message}</p>
      {![403, 404, 422].includes(error.status) && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

const CHECK_MS = 2000;

/** Says that the server cannot be reached, and asks for it until it can. */
export function OfflineBanner(): VNode | null {
  const lost = !online.value;
  useEffect(() => {
    if (!lost) return undefined;
    const timer = window.setInterval(() => void request("/healthz", {}).catch(() => undefined), CHECK_MS);
    return () => window.clearInterval(timer);
  }, [lost]);
  if (!lost) return null;
  return (
    <p class="offline" role="alert">
      The server cannot be reached. What you see may be old; the page reconnects by itself.
    </p>
  );
}
