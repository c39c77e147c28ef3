// Runs the statements of a template.

import { evaluate, evaluateMarked, given, Scope } from "./evaluate.js";
import { runFilter } from "./filters.js";
import { globals, setField } from "./globals.js";
import { tokenize } from "./lexer.js";
import { Loop } from "./loop.js";
import type { Expression, MacroBody, Statement, Target } from "./nodes.js";
import { parse } from "./parser.js";
import { toText } from "./print.js";
import { checkLength, deeper, limited, spend, takeEntries, takeText } from "./template-guard.js";
import {
  Dict,
  defined,
  fail,
  firstOf,
  fromData,
  isTrue,
  iterate,
  Lazy,
  listOf,
  Markup,
  Thing,
  Tuple,
  Undefined,
  type Value,
} from "./values.js";

export { SyntaxProblem } from "./lexer.js";
export { LimitError } from "./template-guard.js";
export { Refusal, TemplateFailure } from "./values.js";

export interface Program {
  /** All names that it has: of variables, and of what else it may read. */
  readonly names: ReadonlySet<string>;
  /**
   * The text of a template.
   * @param variables plain data
   * @throws Refusal, LimitError or TemplateFailure
   */
  render(variables: Readonly<Record<string, unknown>>, now: Date): string;
}

/** Words of the language, which are not names of anything. */
const WORDS = new Set("for in if elif else endif endfor set endset is not and or macro endmacro".split(" "));

/** @throws SyntaxProblem if a template is not valid */
export function parseTemplate(source: string): Program {
  const body = limited(() => parse(source));
  return {
    get names() {
      return new Set(tokenize(source).flatMap(({ type, text }) => (type === "name" && !WORDS.has(text) ? [text] : [])));
    },
    render: (variables, now) =>
      limited(() => {
        const given = new Map(Object.entries(variables).map(([name, value]) => [name, fromData(value)]));
        return written((out) => run(body, new Scope(new Scope(new Map([...globals(now), ...given]))), out));
      }),
  };
}

/** Parts of a text that is written. */
class Output {
  private readonly parts: string[] = [];
  private length = 0;

  write(text: string): void {
    this.length += text.length;
    checkLength(this.length);
    takeEntries(0);
    this.parts.push(text);
  }

  text(): string {
    takeText(this.length);
    return this.parts.join("");
  }
}

function written(write: (out: Output) => void): string {
  const out = new Output();
  write(out);
  return out.text();
}

/** How statements ended, where a loop must know. */
type End = "break" | "continue" | undefined;

function run(statements: readonly Statement[], scope: Scope, out: Output): End {
  for (const statement of statements) {
    const end = runOne(statement, scope, out);
    if (end) return end;
  }
  return undefined;
}

function runOne(node: Statement, scope: Scope, out: Output): End {
  spend();
  switch (node.type) {
    case "text":
      out.write(node.text);
      return undefined;
    case "print":
      out.write(toText(evaluate(node.value, scope)));
      return undefined;
    case "set":
      assign(node.target, evaluateMarked(node.value, scope), scope);
      return undefined;
    case "setBlock":
      return captured(node, scope, (text) => assign(node.target, text, scope));
    case "filterBlock":
      return captured(node, scope, (text) => out.write(toText(text)));
    case "for":
      return loop(node, scope, out);
    case "if": {
      for (const [test, body] of node.branches) if (isTrue(evaluate(test, scope))) return run(body, scope, out);
      return run(node.otherwise, scope, out);
    }
    case "with": {
      const inner = new Scope(scope);
      for (const [target, value] of node.pairs) assign(target, evaluate(value, scope), inner);
      return run(node.body, inner, out);
    }
    case "macro":
      scope.set(node.macro.name, macro(node.macro, scope));
      return undefined;
    case "generation":
      out.write(written((inner) => run(node.body, new Scope(scope), inner)));
      return undefined;
    default:
      return node.type;
  }
}

/** Runs a block whose text is used as a value. */
function captured(
  { body, filter }: { body: readonly Statement[]; filter?: Expression | undefined },
  scope: Scope,
  use: (text: Value) => void,
): End {
  const inner = new Scope(scope);
  const out = new Output();
  const end = run(body, inner, out);
  if (end === undefined) use(filter ? filtered(filter, out.text(), inner) : out.text());
  return end;
}

/** The filters of a block, of which the innermost has no operand. */
function filtered(filter: Expression, text: string, scope: Scope): Value {
  if (filter.type !== "filter") return fail("a block needs a filter");
  const of = filter.of ? filtered(filter.of, text, scope) : text;
  return runFilter(filter.name, of, ...given(filter.call, scope));
}

function assign(target: Target, given: Value | Markup, scope: Scope): void {
  const value = given instanceof Markup ? given.text : given;
  if (target.type === "name") scope.set(target.name, given);
  else if (target.type === "field") setField(scope.get(target.of), target.name, value);
  else unpack(target.items, value, scope);
}

function unpack(targets: readonly Target[], value: Value, scope: Scope): void {
  const values = listOf(defined(value));
  if (values.length !== targets.length) {
    const problem = values.length < targets.length ? "not enough" : "too many";
    fail(`${problem} values to unpack (expected ${targets.length}, got ${values.length})`);
  }
  for (const [i, item] of targets.entries()) assign(item, values[i] as Value, scope);
}

function loop(node: Statement & { type: "for" }, scope: Scope, out: Output): End {
  const items = evaluate(node.over, scope);
  const entries = node.test ? new Lazy(chosen(node.target, node.test, items, scope)) : items;
  const state = new Loop(entries);
  let isEmpty = true;
  for (let item = state.next(); item !== undefined; item = state.next()) {
    isEmpty = false;
    const inner = new Scope(scope);
    inner.set("loop", state.thing);
    assign(node.target, item, inner);
    if (run(node.body, inner, out) === "break") break;
  }
  return isEmpty ? run(node.otherwise, scope, out) : undefined;
}

function* chosen(target: Target, test: Expression, items: Value, scope: Scope): Generator<Value, void> {
  for (const item of iterate(items)) {
    const inner = new Scope(scope);
    assign(target, item, inner);
    if (isTrue(evaluate(test, inner))) yield item;
  }
}

function macro(node: MacroBody, scope: Scope): Thing {
  const { name, parameters, body, reads } = node;
  return new Thing("Macro", (args, named) =>
    deeper(() => {
      const inner = new Scope(scope);
      const rest = new Map(named);
      for (const [i, parameter] of parameters.entries()) {
        const value = firstOf(args[i], rest.get(parameter.name));
        if (i < args.length && rest.has(parameter.name)) fail(`macro '${name}' got two values for '${parameter.name}'`);
        rest.delete(parameter.name);
        const usual = () =>
          parameter.value
            ? evaluate(parameter.value, inner)
            : new Undefined(`parameter '${parameter.name}' was not provided`);
        inner.set(parameter.name, value === undefined ? usual() : value);
      }
      if (reads.has("kwargs")) inner.set("kwargs", dictOf(rest));
      else for (const key of rest.keys()) fail(`macro '${name}' takes no keyword argument '${key}'`);
      if (reads.has("varargs")) inner.set("varargs", new Tuple(args.slice(parameters.length)));
      else if (args.length > parameters.length) {
        fail(`macro '${name}' takes not more than ${parameters.length} argument(s)`);
      }
      return written((out) => run(body, inner, out));
    }),
  );
}

function dictOf(entries: ReadonlyMap<string, Value>): Dict {
  const dict = new Dict();
  for (const [name, value] of entries) dict.set(name, value);
  return dict;
}
