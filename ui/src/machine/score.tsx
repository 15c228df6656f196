// The turn as a score: under each other the rounds, in each its calls as bars to one scale, and what became of them.
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { duration, integer, words } from "../shared/format";
import { textOf } from "../shared/json";
import { Json, Visible } from "../shared/visible";
import { lanesOf } from "./lanes";
import type { Bar, Lane } from "./lanes";
import { label } from "./layout";
import { Sign } from "./sign";
import type { Visit } from "./path";

interface Props {
  readonly visits: readonly Visit[];
  readonly running: boolean;
  /** The number of visits that the scrubber has reached; the bars behind are pale. */
  readonly reached: number;
  /** The bar that is shown in full. */
  readonly selected: string | null;
  readonly onSelect: (id: string | null) => void;
}

const TICK_MS = 100;

/** This browser's time, again and again while `running`; null otherwise. */
export function useNow(running: boolean): number | null {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!running) return undefined;
    setNow(Date.now());
    const timer = window.setInterval(() => setNow(Date.now()), TICK_MS);
    return () => window.clearInterval(timer);
  }, [running]);
  return running ? now : null;
}

export function Score({ visits, running, reached, selected, onSelect }: Props): VNode | null {
  const now = useNow(running);
  if (visits.length === 0) return null;
  const lanes = lanesOf(visits, now);
  const scale = Math.max(1, ...lanes.map((lane) => lane.ms));
  return (
    <ol class="score" aria-label="Score of the turn" data-scale={scale}>
      {lanes.map((lane) => (
        <LaneItem key={lane.round} lane={lane} scale={scale} reached={reached} selected={selected} onSelect={onSelect} />
      ))}
    </ol>
  );
}

interface LaneProps extends Omit<Props, "visits" | "running"> {
  readonly lane: Lane;
  /** The milliseconds of the whole width. */
  readonly scale: number;
}

function LaneItem({ lane, scale, reached, selected, onSelect }: LaneProps): VNode {
  const calls = lane.bars.filter((bar) => bar.kind !== "state");
  const toggle = (id: string): void => onSelect(id === selected ? null : id);
  return (
    <li class="lane">
      <p class="lane-title">
        Round {lane.round}
        <span class="quiet">
          {duration(lane.ms)}
          {lane.tokens > 0 && ` · ${integer(lane.tokens)} tokens`}
        </span>
      </p>
      <div class="track" aria-hidden="true">
        {lane.bars.map((bar) => (
          <span
            key={bar.id}
            class={`beat ${bar.kind} ${bar.verdict ?? ""} ${bar.visit < reached ? "" : "ahead"} ${bar.id === selected ? "selected" : ""}`}
            data-bar={bar.id}
            title={`${bar.kind === "state" ? label(bar.title) : bar.title}: ${duration(bar.ms)}`}
            style={{ left: `${(bar.start / scale) * 100}%`, width: `${(bar.ms / scale) * 100}%` }}
            onClick={() => bar.kind !== "state" && toggle(bar.id)}
          />
        ))}
      </div>
      {calls.length > 0 && (
        <ol class="notes">
          {calls.map((bar) => (
            <Note key={bar.id} bar={bar} ahead={bar.visit >= reached} open={bar.id === selected} onToggle={() => toggle(bar.id)} />
          ))}
        </ol>
      )}
    </li>
  );
}

/** In a short line an id is known by its end: those of one time have the same beginning. */
const UUID = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{4}([0-9a-f]{8})/g;
export const WAITING = "waits for a yes";

function Note({ bar, ahead, open, onToggle }: { bar: Bar; ahead: boolean; open: boolean; onToggle: () => void }): VNode {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (open) item.current?.scrollIntoView({ block: "nearest" });
  }, [open]);
  const { call, model, verdict } = bar;
  const permission = !call ? null : call.disposition === "executed" ? "permitted" : call.disposition === "awaiting" ? WAITING : call.disposition;
  // The ledger's word for what it has not done is for the details.
  const state = verdict === "failed" || verdict === "unknown" ? verdict : (call?.operation ?? null);
  const shown = call?.disposition === "executed" ? state : permission;
  return (
    <li ref={item} class={`note-item ${verdict ?? ""} ${ahead ? "ahead" : ""}`} id={bar.id}>
      <button type="button" aria-expanded={open} onClick={onToggle} disabled={verdict === "running" || (!call && !model)}>
        <span class={bar.kind === "model" ? "sign model" : "sign"} aria-hidden="true">
          <Sign of={bar.kind === "model" && verdict === "done" ? "model" : (verdict ?? "done")} />
        </span>
        <span class="note-title">
          {bar.title === "model" ? "model" : <Visible text={bar.title} />}
          {call && <span class="quiet"> <Visible text={brief(call.arguments).replaceAll(UUID, "…$1")} /></span>}
          {model && <span class="quiet"> {model.tokens !== null && `${integer(model.tokens)} tokens`}</span>}
        </span>
        {shown && (
          <span class={`verdict ${verdict ?? ""}`}>
            {words(shown)}
            {verdict === "refused" && call?.gate && ` at ${call.gate}`}
          </span>
        )}
        <span class="quiet end">{call && call.ms === null ? "" : duration(bar.ms)}</span>
        {verdict === "refused" && call?.reason && (
          <span class="note-reason">
            <Visible text={call.reason} />
          </span>
        )}
      </button>
      {open && call && (
        <div class="note-body">
          <dl class="arguments">
            <Fact name="verdict" value={permission} />
            <Fact name="gate" value={call.gate} />
            <Fact name="operation" value={call.operation} />
            <Fact name="code" value={call.error_code && words(call.error_code)} />
            <Fact name="reason" value={verdict === "refused" ? null : call.reason} />
          </dl>
          <h3>Arguments</h3>
          <Json value={call.arguments} />
          {call.result != null && (
            <>
              <h3>Result</h3>
              <Json value={call.result} />
            </>
          )}
        </div>
      )}
      {open && model && (
        <div class="note-body">
          <dl class="arguments">
            <Fact name="ended by" value={words(model.error ?? model.finish_reason)} />
            <Fact name="asks for" value={model.asks.map(({ title }) => title).join(", ")} />
          </dl>
          {model.text && <Json value={model.text} />}
        </div>
      )}
    </li>
  );
}

function Fact({ name, value }: { name: string; value: string | null }): VNode | null {
  if (!value) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <Visible text={value} />
      </dd>
    </>
  );
}

/** The values of arguments in one line. */
export function brief(given: unknown): string {
  const values = given !== null && typeof given === "object" ? Object.values(given) : [];
  return values.map((value) => textOf(value)).join(", ");
}
