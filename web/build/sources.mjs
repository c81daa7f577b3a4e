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

const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const licenses = Object.entries(dependencies).map(([name, version]) => {
  const folder = join(root, "node_modules", name);
  const file = readdirSync(folder).find((f) => /^licen[sc]e/i.test(f));
  if (!file) throw new Error(`${name} has no license`);
  return `${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});
writeFileSync(join(root, "dist/LICENSES.txt"), licenses.join("\n" + "-".repeat(80) + "\n\n"));
