// Values of expressions.
import { attribute, item, slice } from "./access.js";
import { compare } from "./compare.js";
import { escapeHtml, runFilter } from "./filters.js";
import type { Call, Expression } from "./nodes.js";
import { calculate, join, negate } from "./operators.js";
import { toText } from "./print.js";
import { spend, takeEntries } from "./template-guard.js";
import { runTest } from "./tests.js";
import {
  Dict,
  defined,
  fail,
  isTrue,
  iterate,
  Markup,
  Thing,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

/** Variables: those of a block, and around it. */
export class Scope {
  private readonly own = new Map<string, Value | Markup>();
  private readonly around: Scope | ReadonlyMap<string, Value>;

  constructor(around: Scope | ReadonlyMap<string, Value>) {
    this.around = around;
  }

  get(name: string): Value | Markup | undefined {
    const found = this.own.get(name);
    return found === undefined ? this.around.get(name) : found;
  }

  set(name: string, value: Value | Markup): void {
    spend();
    this.own.set(name, value);
  }
}

export function evaluate(node: Expression, scope: Scope): Value {
  const value = evaluateMarked(node, scope);
  return value instanceof Markup ? value.text : value;
}

/** A value that may be marked. */
export function evaluateMarked(node: Expression, scope: Scope): Value | Markup {
  spend();
  switch (node.type) {
    case "constant":
      return node.value;
    case "name":
      return variable(node.name, scope);
    case "list":
      return all(node.items, scope);
    case "tuple":
      return new Tuple(all(node.items, scope));
    case "concat":
      return all(node.items, scope).map(toText).reduce(join);
    case "dict": {
      const dict = new Dict();
      takeEntries(3 * node.pairs.length);
      for (const [key, value] of node.pairs) dict.set(evaluate(key, scope), evaluate(value, scope));
      return dict;
    }
    case "attribute":
      return attribute(evaluate(node.of, scope), node.name);
    case "item":
      return item(evaluate(node.of, scope), evaluate(node.key, scope));
    case "slice": {
      const of = evaluate(node.of, scope);
      return slice(
        of,
        node.bounds.map((bound) => bound && evaluate(bound, scope)),
      );
    }
    case "call": {
      const callee = evaluate(node.callee, scope);
      return call(callee, ...given(node.call, scope));
    }
    case "filter": {
      const of = node.of ? evaluateMarked(node.of, scope) : "";
      const value = runFilter(node.name, of instanceof Markup ? of.text : of, ...given(node.call, scope));
      return node.name === "safe" ? new Markup(toText(value)) : value;
    }
    case "test":
      return runTest(node.name, evaluate(node.of, scope), ...given(node.call, scope));
    case "binary": {
      const left = evaluateMarked(node.left, scope);
      const right = evaluateMarked(node.right, scope);
      if (!(left instanceof Markup || right instanceof Markup)) return calculate(node.operator, left, right);
      const [one, other] = [left, right].map((value) => (value instanceof Markup ? value.text : value));
      if (node.operator !== "+") return calculate(node.operator, one ?? null, other ?? null);
      return new Markup(join(escaped(left), escaped(right)));
    }
    case "unary": {
      const of = evaluate(node.of, scope);
      return node.operator === "not" ? !isTrue(of) : negate(of, node.operator);
    }
    case "and": {
      const left = evaluate(node.left, scope);
      return isTrue(left) ? evaluateMarked(node.right, scope) : left;
    }
    case "or": {
      const left = evaluate(node.left, scope);
      return isTrue(left) ? left : evaluateMarked(node.right, scope);
    }
    case "compare": {
      let left = evaluate(node.first, scope);
      for (const [operator, value] of node.rest) {
        const right = evaluate(value, scope);
        if (!compare(operator, left, right)) return false;
        left = right;
      }
      return true;
    }
    case "choose":
      if (isTrue(evaluate(node.test, scope))) return evaluateMarked(node.value, scope);
      return node.otherwise
        ? evaluateMarked(node.otherwise, scope)
        : new Undefined("the inline if-expression evaluated to false and no else section was defined.");
  }
}

function variable(name: string, scope: Scope): Value | Markup {
  const found = scope.get(name);
  return found === undefined ? new Undefined(`'${name}' is undefined`) : found;
}

function escaped(value: Value | Markup): string {
  if (value instanceof Markup) return value.text;
  return typeof value === "string"
    ? escapeHtml(value)
    : fail(`unsupported operand type(s) for +: 'Markup' and '${typeName(value)}'`);
}

function all(nodes: readonly Expression[], scope: Scope): Value[] {
  if (nodes.length === 0) return [];
  takeEntries(nodes.length);
  return nodes.map((node) => evaluate(node, scope));
}

/** The arguments of a call. */
export function given(node: Call, scope: Scope): [args: Value[], named: Map<string, Value>] {
  const args = all(node.args, scope);
  const named = new Map(node.named.map(([name, value]) => [name, evaluate(value, scope)]));
  if (node.rest) {
    for (const value of iterate(evaluate(node.rest, scope))) {
      takeEntries(1);
      args.push(value);
    }
  }
  if (node.namedRest) {
    const rest = evaluate(node.namedRest, scope);
    if (!(rest instanceof Dict)) return fail(`argument after ** must be a mapping, not ${typeName(rest)}`);
    for (const [name, value] of rest.pairs()) {
      if (typeof name !== "string") return fail("keywords must be strings");
      if (named.has(name)) fail(`got multiple values for keyword argument '${name}'`);
      named.set(name, value);
    }
  }
  return [args, named];
}

function call(callee: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  const found = defined(callee);
  return found instanceof Thing && found.call
    ? found.call(args, named)
    : fail(`'${typeName(found)}' object is not callable`);
}
