// What the tabs of this browser tell each other.
import { ownName } from "./address";

/** The channel on which each tab announces the conversation whose turn has ended. */
export function turnsChannel(): BroadcastChannel {
  return new BroadcastChannel(ownName("turns"));
}
