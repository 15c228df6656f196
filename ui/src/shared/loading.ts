// What a view loads from the API before it can show anything.
import { useCallback, useEffect, useState } from "preact/hooks";
import { ApiError } from "./client";

export interface Loaded<T> {
  /** Null until it is loaded. After a change of the inputs the former value stays until the next one is there. */
  readonly value: T | null;
  readonly error: ApiError | null;
  readonly retry: () => void;
}

/** Call `load` now and whenever one of `inputs` changes; a call that is no longer wanted is aborted. */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setError(null);
    load(abort.signal)
      .then((found) => !abort.signal.aborted && setValue(() => found))
      .catch((failure: unknown) => !abort.signal.aborted && failure instanceof ApiError && setError(failure));
    return () => abort.abort();
  }, [...inputs, attempt]);
  return { value, error, retry: useCallback(() => setAttempt((made) => made + 1), []) };
}
