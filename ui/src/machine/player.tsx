// Play, pause, and the scrubber over the steps of a turn.
import { useEffect } from "preact/hooks";
import type { VNode } from "preact";

const STEP_MS = 450;

interface Props {
  readonly steps: number;
  /** The step that is shown, from 1. */
  readonly step: number;
  /** What it is called. */
  readonly text: string;
  readonly playing: boolean;
  readonly onPlay: (playing: boolean) => void;
  readonly onStep: (step: number) => void;
}

export function Player({ steps, step, text, playing, onPlay, onStep }: Props): VNode {
  useEffect(() => {
    if (!playing) return undefined;
    if (step >= steps) {
      onPlay(false);
      return undefined;
    }
    const timer = window.setTimeout(() => onStep(step + 1), STEP_MS);
    return () => window.clearTimeout(timer);
  }, [playing, step, steps]);
  return (
    <div class="player">
      <button
        type="button"
        onClick={() => {
          if (!playing && step >= steps) onStep(1);
          onPlay(!playing);
        }}
      >
        {playing ? "Pause" : "Play"}
      </button>
      <input
        type="range"
        min={1}
        max={steps}
        value={step}
        aria-label="Step"
        aria-valuetext={`${step}: ${text}`}
        onInput={(event) => {
          onPlay(false);
          onStep(Number(event.currentTarget.value));
        }}
      />
    </div>
  );
}
