// Builds the page of an analysis: one file without anything to fetch, into which src/figures/page.ts puts the data.
import { defineConfig } from "vite";

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Where the experts changed</title>
<style>STYLE</style>
</head>
<body>
<noscript>This page needs JavaScript. The files beside it have the same results.</noscript>
<script type="application/json" id="data">"__DATA__"</script>
<script>SCRIPT</script>
</body>
</html>
`;

interface Context {
  emitFile(file: { readonly type: "asset"; readonly fileName: string; readonly source: string }): void;
}

interface Output {
  readonly type: "chunk" | "asset";
  readonly code?: string;
  readonly source?: string | Uint8Array;
}

export default defineConfig({
  root: import.meta.dirname,
  resolve: { extensionAlias: { ".js": [".ts", ".tsx", ".js"] } } as never,
  publicDir: false,
  build: {
    outDir: "../../../dist/studio",
    emptyOutDir: false,
    target: "es2023",
    modulePreload: false,
    cssCodeSplit: false,
    rolldownOptions: {
      checks: { bundlerTimings: false },
      input: "analysis.tsx",
      output: { format: "iife" },
    },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [
    {
      name: "one-file",
      enforce: "post",
      generateBundle(this: Context, _: unknown, bundle: Record<string, Output>) {
        const parts = Object.entries(bundle);
        const script = parts.find(([, { type }]) => type === "chunk")?.[1].code ?? "";
        const style = parts.find(([name]) => name.endsWith(".css"))?.[1].source ?? "";
        for (const [name] of parts) delete bundle[name];
        const source = PAGE.replace("STYLE", () => String(style)).replace("SCRIPT", () =>
          script.replaceAll("</", "<\\/"),
        );
        this.emitFile({ type: "asset", fileName: "analysis.html", source });
      },
    },
  ],
} as never);
