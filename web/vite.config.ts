import { defineConfig, type Plugin } from "vite";
import solid from "vite-plugin-solid";

// Solid writes its templates, which are constants of the build, with innerHTML. The policy "solid" is made where they are
// written and can be had nowhere else, so the browser refuses every other string that is used as HTML or as a script.
function trustedTemplates(): Plugin {
  const policy = `
const trusted = globalThis.trustedTypes?.createPolicy("solid", { createHTML: (html) => html }) ?? { createHTML: (html) => html };
`;
  return {
    name: "trusted-templates",
    transform(code, id) {
      if (!id.includes("solid-js/web/dist/")) return null;
      const done = code.replaceAll("t.innerHTML = html", "t.innerHTML = trusted.createHTML(html)");
      if (done === code) throw new Error(`${id}: solid makes its templates in another way now: see vite.config.ts`);
      return { code: done + policy, map: null };
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [solid(), trustedTemplates()],
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      // Names without hashes: the gateway serves them below a path that has the hash of all of them. Those of the canvas say
      // so: they have a limit of their own.
      output: {
        entryFileNames: "a/[name].js",
        chunkFileNames: (c) => (c.moduleIds.some((id) => /\/src\/(core\/flow|pages\/flow)\/(?!client|types|graph)/.test(id)) ? "a/canvas-[name].js" : "a/[name].js"),
        assetFileNames: "a/[name][extname]",
      },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
