// A list of objects in a result, as the server has put it in words. Its values are a server's, and none is read as Markdown.
import type { VNode } from "preact";
import type { SaidTable } from "./client";
import { Visible } from "./visible";

export function TableOf({ table: { columns, rows, more } }: { table: SaidTable }): VNode {
  return (
    <>
      <div class="table" tabindex={0}>
        <table>
          <thead>
            <tr>
              {columns.map((name) => (
                <th key={name}>
                  <Visible text={name} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, number) => (
              <tr key={number}>
                {row.map((cell, index) => (
                  <td key={index}>
                    <Visible text={cell.shown || cell.text} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more && <p class="quiet by-code">{more}</p>}
    </>
  );
}
