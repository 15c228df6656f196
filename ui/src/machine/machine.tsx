// The picture of the state machine: the travelled path, the running state, and a button for each state.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { getJson } from "../shared/client";
import type { Topology } from "../shared/client";
import { HEIGHT, label, NODE, PLACES, ROUTES, WIDTH } from "./layout";
import type { Verdict } from "./calls";
import { countsOf } from "./path";
import type { Ending, Visit } from "./path";
import { useNow } from "./score";
import { Sign } from "./sign";
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
      <Badge parts={running ? [{ text: seconds }] : partsOf(visits)} />
    </g>
  );
}

/** A part of a badge: a sign, and a text after it. */
interface BadgePart {
  readonly verdict?: Verdict;
  readonly text: string;
}

/** The calls of a state by their signs. Without a call its visits, if there are several. */
function partsOf(visits: readonly Visit[]): readonly BadgePart[] {
  const counts = countsOf(visits);
  if (counts.length === 0 && visits.length > 1) return [{ text: `${visits.length}×` }];
  return counts.map(({ verdict, count }) => ({ verdict, text: String(count) }));
}

const SIGN = 9;
const DIGIT = 6.2;
const GAP = 5;
const EDGE = 6;

function Badge({ parts }: { parts: readonly BadgePart[] }): VNode | null {
  let end = EDGE;
  const placed = parts
    .filter(({ text }) => text)
    .map((part) => {
      const start = end;
      end += (part.verdict ? SIGN + 1.5 : 0) + DIGIT * part.text.length + GAP;
      return { ...part, start };
    });
  if (placed.length === 0) return null;
  const width = end - GAP + EDGE;
  return (
    <g class="count" transform={`translate(${NODE.width + 4 - width},-8)`} aria-hidden="true">
      <rect width={width} height="17" rx="8.5" />
      {placed.map(({ verdict, text, start }) => (
        <>
          {verdict && <Sign of={verdict} size={SIGN} x={start} y={4} />}
          <text x={start + (verdict ? SIGN + 1.5 : 0)} y="12">
            {text}
          </text>
        </>
      ))}
    </g>
  );
}
