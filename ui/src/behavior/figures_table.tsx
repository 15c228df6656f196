// A table of figures: a name in the first column, numbers in the others.
import type { ComponentChildren, VNode } from "preact";

export interface FiguresRow {
  readonly key: string;
  readonly name: ComponentChildren;
  readonly figures: readonly string[];
  readonly different?: boolean;
}

interface Props {
  readonly caption?: ComponentChildren;
  /** The heading of every column, the names' first. */
  readonly columns: readonly string[];
  readonly rows: readonly FiguresRow[];
}

export function FiguresTable({ caption, columns, rows }: Props): VNode {
  return (
    <div class="wide" tabindex={0}>
      <table class="figures">
        {caption && <caption>{caption}</caption>}
        <thead>
          <tr>
            {columns.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, name, figures, different }) => (
            <tr key={key} class={different ? "different" : ""}>
              <th scope="row">{name}</th>
              {figures.map((figure, index) => (
                <td key={index}>{figure}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
