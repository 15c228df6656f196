// The addresses of this server. A proxy may serve it under a path of its host, so a path of ours is no address yet.

const root = document.documentElement.dataset["root"];

/** The path under which the server is served, without a slash at its end; empty at the root of a host. */
export const ROOT = root === undefined ? "" : new URL(root, document.baseURI).pathname.replace(/\/$/, "");

/** The address of a path of this server, such as `/api/chat`. */
export function addressOf(path: string): string {
  return ROOT + path;
}

/** The name of something that this server's pages keep in the browser: other servers of the same host have their own. */
export function ownName(name: string): string {
  return `graph_agent${ROOT}.${name}`;
}
