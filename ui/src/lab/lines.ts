// The lines in which two texts differ.

export interface ChangedLine {
  readonly kind: "removed" | "added";
  readonly text: string;
}

/** The lines that `after` does not have any more and those that it has in addition, in order. */
export function changedLines(before: string, after: string): ChangedLine[] {
  const one = before.split("\n");
  const other = after.split("\n");
  // The length of the longest common subsequence of the rest of both texts, from each pair of lines.
  const common = Array.from({ length: one.length + 1 }, () => new Array<number>(other.length + 1).fill(0));
  const at = (i: number, j: number): number => common[i]?.[j] ?? 0;
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) {
      common[i]![j] = one[i] === other[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const changes: ChangedLine[] = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      i += 1;
      j += 1;
    } else if (j >= other.length || (i < one.length && at(i + 1, j) >= at(i, j + 1))) {
      changes.push({ kind: "removed", text: one[i] ?? "" });
      i += 1;
    } else {
      changes.push({ kind: "added", text: other[j] ?? "" });
      j += 1;
    }
  }
  return changes;
}
