// The picture of the state machine: the travelled path, the running state, and a button for each state.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { getJson } from "../shared/client";
import type { Topology } from "../shared/client";
import { HEIGHT, label, NODE, PLACES, ROUTES, WIDTH } from "./layout";
import { countsOf } from "./path";
import type { Ending, Visit } from "./path";
import { useNow } from "./score";
import { duration } from "../shared/format";

export const topology = signal<Topology | null>(null);

/** Fetch the topology once; without it the page shows no machine. */
export async function loadTopology(): Promise<void> {
  if (!topology.value) topology.value = await getJson<Topology>("/api/topology");
}

interface Props {
  readonly visits: readonly Visit[];
  /** The color of the path follows from how the turn came out. */
  readonly ending: Ending;
  /** True while the last visit is still running. */
  readonly running: boolean;
  readonly selected: string | null;
  readonly onSelect: (state: string) => void;
}

export function Machine({ visits, ending, running, selected, onSelect }: Props): VNode | null {
  const machine = topology.value;
  const now = useNow(running);
  if (!machine) return null;
  const travelled = new Set(visits.slice(1).map((visit, index) => `${visits[index]?.state}>${visit.state}`));
  const lastEdge = visits.length > 1 ? `${visits.at(-2)?.state}>${visits.at(-1)?.state}` : "";
  const current = running ? visits.at(-1) : undefined;
  const seconds = now !== null && current && current.since !== null ? duration(Math.max(0, now - current.since)) : "";
  const edges = new Map<string, string[]>();
  for (const edge of machine.edges) {
    const name = `${edge.source}>${edge.target}`;
    edges.set(name, [...(edges.get(name) ?? []), edge.outcome]);
  }
  const drawn = [...edges].filter(([name]) => name in ROUTES);
  // SVG paints in order: travelled edges lie above the others.
  drawn.sort(([one], [other]) => Number(travelled.has(one)) - Number(travelled.has(other)));
  return (
    <svg class={`machine ${ending}`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label="State machine of the turn">
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="3" refY="4" markerWidth="6" markerHeight="6" orient="auto-start-reverse">
          <path d="M0,0.6 L7,4 L0,7.4 Z" class="arrow" />
        </marker>
        <marker id="arrow-travelled" viewBox="0 0 8 8" refX="3" refY="4" markerWidth="5" markerHeight="5" orient="auto-start-reverse">
          <path d="M0,0.6 L7,4 L0,7.4 Z" class="arrow travelled" />
        </marker>
      </defs>
      {drawn.map(([name, outcomes]) => (
        <path
          key={name}
          class={`edge ${travelled.has(name) ? "travelled" : ""} ${running && name === lastEdge ? "latest" : ""}`}
          data-edge={name}
          d={ROUTES[name] ?? ""}
          marker-end={travelled.has(name) ? "url(#arrow-travelled)" : "url(#arrow)"}
        >
          <title>{outcomes.join(" · ").replaceAll("_", " ")}</title>
        </path>
      ))}
      {machine.states.map((state) => (
        <State
          key={state}
          state={state}
          visits={visits.filter((visit) => visit.state === state)}
          running={state === current?.state}
          seconds={seconds}
          selected={state === selected}
          onSelect={onSelect}
        />
      ))}
    </svg>
  );
}

interface StateProps {
  readonly state: string;
  readonly visits: readonly Visit[];
  readonly running: boolean;
  /** How long the running state has been running. */
  readonly seconds: string;
  readonly selected: boolean;
  readonly onSelect: (state: string) => void;
}

function State({ state, visits, running, seconds, selected, onSelect }: StateProps): VNode | null {
  const place = PLACES[state];
  if (!place) return null;
  const condition = running ? "running" : visits.length > 0 ? "visited" : "idle";
  const times = visits.length > 1 ? `, ${visits.length} times` : "";
  const badge = running ? seconds : countsOf(visits);
  const width = 10 + 6.2 * badge.length;
  return (
    <g
      class={`state ${condition} ${selected ? "selected" : ""}`}
      data-state={state}
      data-condition={condition}
      role="button"
      tabindex={0}
      aria-pressed={selected}
      aria-description={`${condition}${times}`}
      transform={`translate(${place.x - NODE.width / 2},${place.y - NODE.height / 2})`}
      onClick={() => onSelect(state)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        onSelect(state);
      }}
    >
      <rect width={NODE.width} height={NODE.height} rx="9" />
      <text x={NODE.width / 2} y={NODE.height / 2 + 4} text-anchor="middle">
        {label(state)}
      </text>
      {badge && (
        <g class="count" transform={`translate(${NODE.width + 4 - width},-8)`} aria-hidden="true">
          <rect width={width} height="17" rx="8.5" />
          <text x={width / 2} y="12" text-anchor="middle">
            {badge}
          </text>
        </g>
      )}
    </g>
  );
}
