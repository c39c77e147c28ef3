// Parsed templates.

export interface Call {
  readonly args: readonly Expression[];
  readonly named: readonly (readonly [name: string, value: Expression])[];
  /** `*list` and `**dict`. */
  readonly rest?: Expression | undefined;
  readonly namedRest?: Expression | undefined;
}

export type Expression =
  | { readonly type: "constant"; readonly value: null | boolean | bigint | number | string }
  | { readonly type: "name"; readonly name: string }
  | { readonly type: "list" | "tuple" | "concat"; readonly items: readonly Expression[] }
  | { readonly type: "dict"; readonly pairs: readonly (readonly [Expression, Expression])[] }
  | { readonly type: "attribute"; readonly of: Expression; readonly name: string }
  | { readonly type: "item"; readonly of: Expression; readonly key: Expression }
  | { readonly type: "slice"; readonly of: Expression; readonly bounds: readonly (Expression | undefined)[] }
  | { readonly type: "call"; readonly callee: Expression; readonly call: Call }
  /** A filter of a block has no operand. */
  | { readonly type: "filter"; readonly of?: Expression | undefined; readonly name: string; readonly call: Call }
  | { readonly type: "test"; readonly of: Expression; readonly name: string; readonly call: Call }
  | { readonly type: "binary"; readonly operator: string; readonly left: Expression; readonly right: Expression }
  | { readonly type: "unary"; readonly operator: "+" | "-" | "not"; readonly of: Expression }
  | { readonly type: "and" | "or"; readonly left: Expression; readonly right: Expression }
  | {
      readonly type: "compare";
      readonly first: Expression;
      readonly rest: readonly (readonly [operator: string, value: Expression])[];
    }
  | {
      readonly type: "choose";
      readonly test: Expression;
      readonly value: Expression;
      readonly otherwise?: Expression | undefined;
    };

export type Target =
  | { readonly type: "name"; readonly name: string }
  | { readonly type: "field"; readonly of: string; readonly name: string }
  | { readonly type: "targets"; readonly items: readonly Target[] };

export interface Parameter {
  readonly name: string;
  readonly value?: Expression | undefined;
}

export interface MacroBody {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly body: readonly Statement[];
  /** All names that the body reads; decides whether a macro takes `varargs` and `kwargs`. */
  readonly reads: ReadonlySet<string>;
}

export type Statement =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "print"; readonly value: Expression }
  | { readonly type: "set"; readonly target: Target; readonly value: Expression }
  | {
      readonly type: "setBlock";
      readonly target: Target;
      readonly filter?: Expression | undefined;
      readonly body: readonly Statement[];
    }
  | {
      readonly type: "for";
      readonly target: Target;
      readonly over: Expression;
      readonly test?: Expression | undefined;
      readonly body: readonly Statement[];
      readonly otherwise: readonly Statement[];
    }
  | {
      readonly type: "if";
      readonly branches: readonly (readonly [test: Expression, body: readonly Statement[]])[];
      readonly otherwise: readonly Statement[];
    }
  | {
      readonly type: "with";
      readonly pairs: readonly (readonly [Target, Expression])[];
      readonly body: readonly Statement[];
    }
  | { readonly type: "macro"; readonly macro: MacroBody }
  | { readonly type: "filterBlock"; readonly filter: Expression; readonly body: readonly Statement[] }
  /** `{% generation %}`, which marks what the assistant wrote, is a macro that is called in place. */
  | { readonly type: "generation"; readonly body: readonly Statement[] }
  | { readonly type: "break" | "continue" };
