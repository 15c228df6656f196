// Bundles the page into the folder named by the first argument: index.html, app.js and app.css.
import { build } from "esbuild";
import { copyFile, mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const MAX_GZIP_BYTES = 60 * 1024;

const target = process.argv[2];
if (!target) throw new Error("usage: node build.mjs FOLDER");
await mkdir(target, { recursive: true });
await build({
  entryPoints: { app: "src/main.tsx" },
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  // What is imported later has a file of its own.
  splitting: true,
  chunkNames: "[name]-[hash]",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});
await copyFile("index.html", join(target, "index.html"));
await copyFile("icon.svg", join(target, "icon.svg"));

const sizes = await Promise.all((await readdir(target)).map(async (name) => gzipSync(await readFile(join(target, name))).length));
const total = sizes.reduce((sum, size) => sum + size, 0);
if (total > MAX_GZIP_BYTES) throw new Error(`the page has ${total} bytes gzip; ${MAX_GZIP_BYTES} are allowed`);
console.log(`page: ${(total / 1024).toFixed(1)} KB gzip`);
