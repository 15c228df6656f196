// What the switch and the button of a condition in the lab make of a text.
//   node statements.mjs FOLDER_OF_UI < [[text, number, original], ...] > [[toggled, removed], ...]
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const folder = process.argv[2];
const { transformSync } = createRequire(join(folder, "package.json"))("esbuild");
const { code } = transformSync(readFileSync(join(folder, "src/lab/statements.ts"), "utf8"), { loader: "ts", format: "esm" });
const { statementAt, withOtherShadow, withoutStatement } = await import(`data:text/javascript,${encodeURIComponent(code)}`);
const asked = JSON.parse(readFileSync(0, "utf8"));
const changed = asked.map(([text, number, original]) => {
  const one = statementAt(text, text, number);
  return [withOtherShadow(text, one, original), withoutStatement(text, one)];
});
console.log(JSON.stringify(changed));
