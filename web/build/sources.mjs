// Writes dist/SOURCES.sha256: what dist was made from. The Go test of this package computes it again. And dist/LICENSES.txt:
// under which conditions others let their part of it be given on.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = new URL("..", import.meta.url).pathname;
const files = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
for (const entry of readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })) {
  const path = join(entry.parentPath, entry.name).slice(root.length);
  if (entry.isFile() && !path.endsWith(".test.ts")) files.push(path);
}
files.sort();
const lines = files.map((f) => `${createHash("sha256").update(readFileSync(join(root, f))).digest("hex")}  ${f}\n`);
writeFileSync(join(root, "dist/SOURCES.sha256"), lines.join(""));

// Of the libraries that the pages use, and of those that these use.
const of = (folder) => JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
const found = new Map();
const queue = Object.keys(of(".").dependencies);
for (let name = queue.shift(); name; name = queue.shift()) {
  if (found.has(name)) continue;
  const folder = join("node_modules", name);
  const { version, dependencies = {} } = of(folder);
  const file = readdirSync(join(root, folder)).find((f) => /^licen[sc]e/i.test(f));
  if (!file) throw new Error(`${name} has no license`);
  found.set(name, `${name} ${version}\n\n${readFileSync(join(root, folder, file), "utf8").trim()}\n`);
  queue.push(...Object.keys(dependencies));
}
writeFileSync(join(root, "dist/LICENSES.txt"), [...found.keys()].sort().map((name) => found.get(name)).join("\n" + "-".repeat(80) + "\n\n"));
