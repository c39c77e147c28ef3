// The editor is half of the page's script, and only one view has it: it is loaded when that view is opened.
import { signal } from "@preact/signals";
import type { ComponentProps } from "preact";
import { useEffect } from "preact/hooks";
import { inBackground } from "../store.ts";
import type { RecipeEditor } from "./editor.tsx";

const loaded = signal<typeof RecipeEditor | null>(null);

export function LazyEditor(props: ComponentProps<typeof RecipeEditor>) {
  useEffect(() => {
    if (loaded.value) return;
    void inBackground(async () => {
      const found = await import("./editor.tsx");
      loaded.value = found.RecipeEditor;
    });
  }, []);
  const Editor = loaded.value;
  return Editor ? <Editor {...props} /> : <div class="recipe-editor" aria-busy="true" />;
}
