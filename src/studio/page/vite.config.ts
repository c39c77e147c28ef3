// Builds the page into dist/studio/page, next to the server that sends it.
import { defineConfig } from "vite";

export default defineConfig({
  root: import.meta.dirname,
  base: "/",
  resolve: { extensionAlias: { ".js": [".ts", ".tsx", ".js"] } } as never,
  build: {
    outDir: "../../../dist/studio/page",
    emptyOutDir: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    // A font or picture inside a style would be refused by the page's policy.
    assetsInlineLimit: 0,
    rolldownOptions: { checks: { bundlerTimings: false } },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
} as never);
