// Bundles the page into the folder named by the first argument: index.html, the files that it loads, and these files compressed.
import { build } from "esbuild";
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

/** What a new visitor loads to chat, and all parts together. */
const MAX_GZIP_BYTES = { "first load": 60 * 1024, "all parts": 130 * 1024 };

const target = process.argv[2];
if (!target) throw new Error("usage: node build.mjs FOLDER");
await mkdir(target, { recursive: true });
const { metafile } = await build({
  entryPoints: { main: "src/main.tsx" },
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  // Chromium then compiles the functions beside the main thread while the file arrives, instead of each one when it is called.
  banner: { js: "//# allFunctionsCalledOnLoad" },
  // What is imported later has a file of its own. A name changes with its content, so a browser may keep a file for ever.
  splitting: true,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  metafile: true,
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});

const [main, { cssBundle }] = Object.entries(metafile.outputs).find(([, output]) => output.entryPoint === "src/main.tsx");
const document = (await readFile("index.html", "utf8"))
  .replace("/page/main.css", `/page/${basename(cssBundle)}`)
  .replace("/page/main.js", `/page/${basename(main)}`);
await writeFile(join(target, "index.html"), document);
await copyFile("icon.png", join(target, "icon.png"));

// The film in the file of a proof: one script, with the page's style for its shadow root.
const FILM = "film.js";
const common = { bundle: true, minify: true, write: false, legalComments: "none", logLevel: "warning" };
const style = await build({ ...common, entryPoints: ["src/style.css"] });
const film = await build({
  ...common,
  entryPoints: ["src/film/main.tsx"],
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { FILM_STYLE: JSON.stringify(style.outputFiles[0].text.replaceAll(":root", ":host")) },
});
await writeFile(join(target, FILM), film.outputFiles[0].text);

const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
const parts = new Set([FILM, ...imports.filter(({ kind }) => kind === "dynamic-import").map(({ path }) => basename(path))]);
const bytes = { "first load": 0, "all parts": 0 };
for (const name of await readdir(target)) {
  const content = await readFile(join(target, name));
  const zipped = gzipSync(content, { level: 9 });
  bytes["all parts"] += zipped.length;
  if (!parts.has(name)) bytes["first load"] += zipped.length;
  if (!/\.(js|css)$/.test(name)) continue;
  await writeFile(join(target, `${name}.gz`), zipped);
  const text = { [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  await writeFile(join(target, `${name}.br`), brotliCompressSync(content, { params: text }));
}
for (const [name, limit] of Object.entries(MAX_GZIP_BYTES)) {
  if (bytes[name] > limit) throw new Error(`the page's ${name} has ${bytes[name]} bytes gzip; ${limit} are allowed`);
}
console.log(`page: ${Object.entries(bytes).map(([name, size]) => `${name} ${(size / 1024).toFixed(1)} KB`).join(", ")} gzip`);
