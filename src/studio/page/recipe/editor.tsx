// The recipe as text: CodeMirror with completion from the methods' schemas and problems at their lines.
import { autocompletion, type CompletionContext, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import type { Check, Method } from "../../protocol/index.js";
import { completionsAt } from "./complete.js";

interface EditorProps {
  readonly text: string;
  /** Counts changes of the text that were not typed here. */
  readonly revision: number;
  readonly problems: Check["problems"];
  readonly methods: readonly Method[];
  /** Names or paths of models that a source may be. */
  readonly sources: readonly string[];
  readonly onChange: (text: string) => void;
}

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--paper)", fontSize: "var(--text-s)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--ink)", padding: "var(--s2) 0" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--soft)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--raised)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--accent-weak) !important" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-tooltip": { backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent)",
    color: "var(--on-accent)",
  },
});
const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--expert-1)" },
  { tag: [tags.string, tags.content], color: "var(--ink)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--expert-3)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
  { tag: tags.punctuation, color: "var(--soft)" },
]);

/** The editor stands in a shadow root, where its styles need no exception from the page's policy. */
export function RecipeEditor({ text, revision, problems, methods, sources, onChange }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef({ onChange, methods, sources });
  latest.current = { onChange, methods, sources };

  useEffect(() => {
    if (!host.current) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const complete = (context: CompletionContext) =>
      completionsAt(context.state.doc.toString(), context.pos, context.explicit, latest.current);
    const state = EditorState.create({
      doc: text,
      extensions: [
        ...[lineNumbers(), lintGutter(), drawSelection(), highlightActiveLine(), indentOnInput(), bracketMatching()],
        ...[yaml(), syntaxHighlighting(colours), theme, EditorView.lineWrapping],
        autocompletion({ override: [complete], icons: false }),
        // Undo and redo are the view's, which undoes changes of the board, too. Tab leaves the editor.
        keymap.of([...completionKeymap, ...defaultKeymap]),
        EditorView.contentAttributes.of({ "aria-label": "Recipe as YAML", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.every((one) => one.isUserEvent("outside"))) {
            latest.current.onChange(update.state.doc.toString());
          }
        }),
      ],
    });
    const made = new EditorView({ state, root, parent: root });
    view.current = made;
    return () => made.destroy();
  }, []);

  useEffect(() => {
    const now = view.current;
    if (!now || now.state.doc.toString() === text) return;
    const changes = { from: 0, to: now.state.doc.length, insert: text };
    now.dispatch({ changes, userEvent: "outside" });
  }, [revision]);

  useEffect(() => {
    const now = view.current;
    if (!now) return;
    const { doc } = now.state;
    const found = problems.map(({ line, message }): Diagnostic => {
      const { from, to } = doc.line(Math.min(Math.max(line ?? 1, 1), doc.lines));
      return { from, to, severity: "error", message };
    });
    now.dispatch(setDiagnostics(now.state, found));
  }, [problems, text]);

  return <div class="recipe-editor" ref={host} />;
}
