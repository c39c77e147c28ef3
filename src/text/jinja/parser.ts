// Parses templates into nodes, with the grammar of Jinja 3.1 (parser.py) and the tags of transformers.
import { CONSTANTS, describe, ExpressionParser } from "./expression-parser.js";
import { tokenize } from "./lexer.js";
import type { Expression, MacroBody, Parameter, Statement, Target } from "./nodes.js";

/** @throws SyntaxProblem if it is not valid */
export function parse(source: string): readonly Statement[] {
  return new Parser(tokenize(source)).template();
}

class Parser extends ExpressionParser {
  /** Loops around a tag within its macro. */
  private loops = 0;

  template(): readonly Statement[] {
    const body = this.statements();
    if (this.token.type !== "end") this.fail(`unexpected ${describe(this.peek(1))}`);
    return body;
  }

  /** Statements up to the tag that ends or continues the block around them. */
  private statements(): Statement[] {
    const body: Statement[] = [];
    for (;;) {
      if (this.is("data")) body.push({ type: "text", text: this.next().text });
      else if (this.skip("printStart")) {
        body.push({ type: "print", value: this.tuple() });
        this.expect("printEnd");
      } else if (this.is("blockStart")) {
        const tag = this.peek(1);
        if (/^(?:end|el(?:se|if)$)/.test(tag.text)) return body;
        this.at++;
        body.push(this.nested(() => this.statement()));
        this.expect("blockEnd");
      } else return body;
    }
  }

  /** The body of a tag, and the name of the tag that ends it. */
  private body(...ends: readonly string[]): { body: Statement[]; end: string } {
    this.skip("operator", ":");
    this.expect("blockEnd");
    const body = this.statements();
    const tag = this.is("blockStart") ? this.peek(1) : this.token;
    if (!ends.includes(tag.text) || tag.type !== "name") {
      this.fail(`expected ${ends.join(" or ")}, not ${describe(tag)}`);
    }
    this.at += 2;
    return { body, end: tag.text };
  }

  private statement(): Statement {
    const tag = this.expect("name").text;
    switch (tag) {
      case "set":
        return this.set();
      case "for":
        return this.for();
      case "if":
        return this.if();
      case "with":
        return this.with();
      case "macro": {
        const { text: name } = this.expect("name");
        return { type: "macro", macro: this.macro(name, this.parameters(), "endmacro") };
      }
      case "filter": {
        const filter = this.filters(undefined, true);
        return { type: "filterBlock", filter, body: this.body("endfilter").body };
      }
      case "generation":
        return { type: "generation", body: this.macro("generation", [], "endgeneration").body };
      case "break":
      case "continue":
        if (this.loops === 0) this.fail(`${tag} is outside of a loop`);
        return { type: tag };
      default:
        return this.fail(`${tag} is not a supported tag`);
    }
  }

  private set(): Statement {
    const target = this.target(true);
    if (this.skip("operator", "=")) return { type: "set", target, value: this.tuple() };
    const filter = this.isOperator("|") ? this.filters(undefined) : undefined;
    return { type: "setBlock", target, filter, body: this.body("endset").body };
  }

  private for(): Statement {
    const target = this.target(false);
    this.expect("name", "in");
    const over = this.tuple(false);
    const test = this.skip("name", "if") ? this.expression() : undefined;
    if (this.is("name", "recursive")) this.fail("recursive loops are not supported");
    this.loops++;
    const { body, end } = this.body("endfor", "else");
    this.loops--;
    const otherwise = end === "else" ? this.body("endfor").body : [];
    return { type: "for", target, over, test, body, otherwise };
  }

  private if(): Statement {
    const branches: [Expression, Statement[]][] = [];
    this.conditions++;
    for (;;) {
      const test = this.tuple(false);
      const { body, end } = this.body("elif", "else", "endif");
      branches.push([test, body]);
      if (end === "elif") continue;
      const otherwise = end === "else" ? this.body("endif").body : [];
      this.conditions--;
      return { type: "if", branches, otherwise };
    }
  }

  private with(): Statement {
    const pairs: [Target, Expression][] = [];
    while (!this.is("blockEnd")) {
      if (pairs.length > 0) this.expect("operator", ",");
      const target = this.target(false);
      this.expect("operator", "=");
      pairs.push([target, this.expression()]);
    }
    return { type: "with", pairs, body: this.body("endwith").body };
  }

  private parameters(): Parameter[] {
    const parameters: Parameter[] = [];
    this.expect("operator", "(");
    while (!this.isOperator(")")) {
      if (parameters.length > 0) this.expect("operator", ",");
      const { text: name } = this.expect("name");
      const value = this.skip("operator", "=") ? this.expression() : undefined;
      if (value === undefined && parameters.at(-1)?.value)
        this.fail(`${name} needs a default, as one before it has one`);
      parameters.push({ name, value });
    }
    this.at++;
    return parameters;
  }

  private macro(name: string, parameters: readonly Parameter[], end: string): MacroBody {
    const [reads, loops] = [new Set<string>(), this.loops];
    this.loops = 0;
    this.reads.push(reads);
    const { body } = this.body(end);
    this.reads.pop();
    this.loops = loops;
    for (const read of reads) this.reads.at(-1)?.add(read);
    return { name, parameters, body, reads };
  }

  private target(hasFields: boolean): Target {
    const items: Target[] = [];
    let isTuple = false;
    while (!this.is("name", "in") && !this.is("blockEnd") && !this.isOperator("=", ")")) {
      if (this.skip("operator", "(")) {
        items.push(this.nested(() => this.target(hasFields)));
        this.expect("operator", ")");
      } else {
        const { text: name } = this.expect("name");
        if (CONSTANTS.has(name)) this.fail(`cannot assign to ${name}`);
        if (hasFields && this.skip("operator", ".")) {
          items.push({ type: "field", of: name, name: this.expect("name").text });
        } else items.push({ type: "name", name });
      }
      if (!this.skip("operator", ",")) break;
      isTuple = true;
    }
    const [only] = items;
    if (only === undefined) this.fail(`expected a name, not ${describe(this.token)}`);
    return isTuple ? { type: "targets", items } : only;
  }
}
