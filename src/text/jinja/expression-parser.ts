// Parses the expressions of templates, with the grammar of Jinja 3.1 (parser.py).
import { hasFilter } from "./filters.js";
import { SyntaxProblem, type Token, type TokenType } from "./lexer.js";
import type { Call, Expression } from "./nodes.js";
import { hasTest } from "./tests.js";

/** Deepest nesting of tags and expressions; Python refuses 200 parentheses and 20 loops. */
const MAX_NESTING = 100;

/** Python's limit for the digits of a number. */
const MAX_DIGITS = 4300;

const COMPARISONS = ["==", "!=", "<", "<=", ">", ">="];
export const CONSTANTS: ReadonlyMap<string, null | boolean> = new Map([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);

export class ExpressionParser {
  protected at = 0;
  private nesting = 0;
  /** Conditions around an expression: an unknown filter there is an error only when it runs. */
  protected conditions = 0;
  /** Names that each macro around reads. */
  protected readonly reads: Set<string>[] = [];

  private readonly tokens: readonly Token[];

  constructor(tokens: readonly Token[]) {
    this.tokens = tokens;
  }

  protected get token(): Token {
    return this.peek(0);
  }

  protected peek(ahead: number): Token {
    return this.tokens[Math.min(this.at + ahead, this.tokens.length - 1)] as Token;
  }

  protected fail(message: string): never {
    throw new SyntaxProblem(`line ${this.token.line}: ${message}`);
  }

  protected is(type: TokenType, text?: string): boolean {
    return this.token.type === type && (text === undefined || this.token.text === text);
  }

  protected isOperator(...texts: readonly string[]): boolean {
    return this.token.type === "operator" && texts.includes(this.token.text);
  }

  protected skip(type: TokenType, text?: string): boolean {
    const found = this.is(type, text);
    if (found) this.at++;
    return found;
  }

  protected next(): Token {
    const token = this.token;
    this.at++;
    return token;
  }

  protected expect(type: TokenType, text?: string): Token {
    if (!this.is(type, text)) this.fail(`expected ${text ?? type}, not ${describe(this.token)}`);
    return this.next();
  }

  protected nested<T>(run: () => T): T {
    if (++this.nesting > MAX_NESTING) this.fail(`nests deeper than ${MAX_NESTING} levels`);
    const value = run();
    this.nesting--;
    return value;
  }

  /** An expression, or several with commas. */
  protected tuple(hasConditions = true, isParenthesised = false): Expression {
    const items: Expression[] = [];
    let isTuple = false;
    const atEnd = () => this.is("printEnd") || this.is("blockEnd") || this.isOperator(")");
    while (!atEnd()) {
      items.push(hasConditions ? this.expression() : this.or());
      if (!this.skip("operator", ",")) break;
      isTuple = true;
    }
    const [only] = items;
    if (!isTuple && only) return only;
    if (!isTuple && !isParenthesised) this.fail(`expected an expression, not ${describe(this.token)}`);
    return { type: "tuple", items };
  }

  protected expression(): Expression {
    return this.nested(() => {
      let value = this.or();
      while (this.skip("name", "if")) {
        this.conditions++;
        const test = this.or();
        const otherwise = this.skip("name", "else") ? this.expression() : undefined;
        this.conditions--;
        value = { type: "choose", test, value, otherwise };
      }
      return value;
    });
  }

  private or(): Expression {
    let left = this.and();
    while (this.skip("name", "or")) left = { type: "or", left, right: this.and() };
    return left;
  }

  private and(): Expression {
    let left = this.not();
    while (this.skip("name", "and")) left = { type: "and", left, right: this.not() };
    return left;
  }

  private not(): Expression {
    if (!this.skip("name", "not")) return this.compare();
    return { type: "unary", operator: "not", of: this.nested(() => this.not()) };
  }

  private compare(): Expression {
    const first = this.sum();
    const rest: [string, Expression][] = [];
    for (;;) {
      if (this.isOperator(...COMPARISONS)) rest.push([this.next().text, this.sum()]);
      else if (this.skip("name", "in")) rest.push(["in", this.sum()]);
      else if (this.is("name", "not") && this.peek(1).type === "name" && this.peek(1).text === "in") {
        this.at += 2;
        rest.push(["not in", this.sum()]);
      } else return rest.length === 0 ? first : { type: "compare", first, rest };
    }
  }

  /** Operators of one level, from the left. */
  private binary(operators: readonly string[], operand: () => Expression): Expression {
    let left = operand();
    while (this.isOperator(...operators)) left = { type: "binary", operator: this.next().text, left, right: operand() };
    return left;
  }

  private readonly sum = (): Expression => this.binary(["+", "-"], this.concat);

  private readonly concat = (): Expression => {
    const first = this.product();
    if (!this.isOperator("~")) return first;
    const items = [first];
    while (this.skip("operator", "~")) items.push(this.product());
    return { type: "concat", items };
  };

  private readonly product = (): Expression => this.binary(["*", "/", "//", "%"], this.power);

  private readonly power = (): Expression => this.binary(["**"], () => this.unary(true));

  private unary(hasFilters: boolean): Expression {
    const sign = this.isOperator("-", "+") ? (this.next().text as "-" | "+") : undefined;
    const value: Expression =
      sign === undefined ? this.primary() : { type: "unary", operator: sign, of: this.nested(() => this.unary(false)) };
    const whole = this.postfix(value);
    return hasFilters ? this.filtersAndTests(whole) : whole;
  }

  private primary(): Expression {
    const token = this.token;
    if (token.type === "name") {
      this.at++;
      const value = CONSTANTS.get(token.text);
      if (value !== undefined) return { type: "constant", value };
      this.reads.at(-1)?.add(token.text);
      return { type: "name", name: token.text };
    }
    if (token.type === "string") {
      let value = "";
      while (this.is("string")) value += this.next().text;
      return { type: "constant", value };
    }
    if (token.type === "integer" || token.type === "float") {
      const text = this.next().text.replaceAll("_", "");
      if (text.length > MAX_DIGITS) this.fail(`a number has more than ${MAX_DIGITS} digits`);
      return { type: "constant", value: token.type === "integer" ? BigInt(text) : Number(text) };
    }
    if (this.skip("operator", "(")) {
      const value = this.tuple(true, true);
      this.expect("operator", ")");
      return value;
    }
    if (this.skip("operator", "[")) return { type: "list", items: this.items("]", () => this.expression()) };
    if (this.skip("operator", "{")) {
      const pair = (): [Expression, Expression] => {
        const key = this.expression();
        this.expect("operator", ":");
        return [key, this.expression()];
      };
      return { type: "dict", pairs: this.items("}", pair) };
    }
    return this.fail(`expected an expression, not ${describe(token)}`);
  }

  private items<T>(end: string, read: () => T): T[] {
    const items: T[] = [];
    while (!this.skip("operator", end)) {
      if (items.length > 0) {
        this.expect("operator", ",");
        if (this.skip("operator", end)) break;
      }
      items.push(read());
    }
    return items;
  }

  private postfix(start: Expression): Expression {
    let value = start;
    for (;;) {
      if (this.skip("operator", ".")) {
        if (this.is("integer")) value = { type: "item", of: value, key: this.primary() };
        else value = { type: "attribute", of: value, name: this.expect("name").text };
      } else if (this.skip("operator", "[")) value = this.subscript(value);
      else if (this.isOperator("(")) value = { type: "call", callee: value, call: this.call() };
      else return value;
    }
  }

  private subscript(of: Expression): Expression {
    const bounds: (Expression | undefined)[] = [];
    const atBound = () => !this.isOperator(":", "]");
    bounds.push(atBound() ? this.expression() : undefined);
    while (bounds.length < 3 && this.skip("operator", ":")) bounds.push(atBound() ? this.expression() : undefined);
    const [key] = bounds;
    if (bounds.length === 1 && key && this.isOperator(",")) {
      this.at++;
      const items = [key, ...this.items("]", () => this.expression())];
      return { type: "item", of, key: { type: "tuple", items } };
    }
    this.expect("operator", "]");
    if (bounds.length > 1) return { type: "slice", of, bounds };
    return { type: "item", of, key: key ?? this.fail("expected an expression, not ]") };
  }

  private call(): Call {
    const args: Expression[] = [];
    const named: [string, Expression][] = [];
    let rest: Expression | undefined;
    let namedRest: Expression | undefined;
    this.expect("operator", "(");
    this.items(")", () => {
      if (namedRest) this.fail("an argument follows **");
      if (this.skip("operator", "**")) namedRest = this.expression();
      else if (this.skip("operator", "*")) rest = rest ? this.fail("* is given twice") : this.expression();
      else if (this.is("name") && this.peek(1).type === "operator" && this.peek(1).text === "=") {
        const { text: name } = this.next();
        this.at++;
        named.push([name, this.expression()]);
      } else {
        if (rest || named.length > 0) this.fail("an argument without a name follows one with a name");
        args.push(this.expression());
      }
    });
    return { args, named, rest, namedRest };
  }

  private optionalCall(): Call {
    return this.isOperator("(") ? this.call() : { args: [], named: [] };
  }

  private filtersAndTests(start: Expression): Expression {
    let value = start;
    for (;;) {
      if (this.isOperator("|")) value = this.filters(value);
      else if (this.is("name", "is")) value = this.test(value);
      else if (this.isOperator("(")) value = { type: "call", callee: value, call: this.call() };
      else return value;
    }
  }

  /** Filters of a value, or of a block; one of a block begins without a bar. */
  protected filters(of: Expression | undefined, isStarted = false): Expression {
    let value = of;
    let isFirst = isStarted;
    while (isFirst || this.skip("operator", "|")) {
      isFirst = false;
      const { text: name } = this.expect("name");
      if (!hasFilter(name) && this.conditions === 0) this.fail(`the filter ${name} is not supported`);
      value = { type: "filter", of: value, name, call: this.optionalCall() };
    }
    return value ?? this.fail("expected a filter");
  }

  private test(of: Expression): Expression {
    this.at++;
    const isNegated = this.skip("name", "not");
    const { text: name } = this.expect("name");
    if (!hasTest(name) && this.conditions === 0) this.fail(`the test ${name} is not supported`);
    let call: Call = { args: [], named: [] };
    const isWord = this.is("name") && !["else", "or", "and"].includes(this.token.text);
    if (this.isOperator("(")) call = this.call();
    else if (isWord || ["string", "integer", "float"].includes(this.token.type) || this.isOperator("[", "{")) {
      if (this.is("name", "is")) this.fail("tests cannot be chained");
      call = { args: [this.postfix(this.primary())], named: [] };
    }
    const test: Expression = { type: "test", of, name, call };
    return isNegated ? { type: "unary", operator: "not", of: test } : test;
  }
}

export function describe({ type, text }: Token): string {
  if (type === "end") return "the end of the template";
  return text === "" || type === "data" ? `the ${type} of the template` : text.slice(0, 40);
}
