// Grammars over bytes, read a byte at a time: all ways in which the bytes so far can go on are followed together.

/** What may come: one of some bytes, parts in order, one of several, a number of the same, or what a rule says. */
export type Expression =
  | { readonly kind: "byte" /** By value. */; readonly allows: Uint8Array }
  | { readonly kind: "sequence"; readonly of: readonly Expression[] }
  | { readonly kind: "choice"; readonly of: readonly Expression[] }
  | Repeat
  | { readonly kind: "rule"; readonly expression: () => Expression };

interface Repeat {
  readonly kind: "repeat";
  readonly of: Expression;
  readonly least: number;
  readonly most: number;
  /** The same after one more, made when it is needed. */
  rest?: Repeat;
}

export const sequence = (...of: readonly Expression[]): Expression => ({ kind: "sequence", of });
export const choice = (...of: readonly Expression[]): Expression => ({ kind: "choice", of });
export const optional = (of: Expression): Expression => choice(of, sequence());
export const repeat = (of: Expression, least: number, most: number): Repeat => ({ kind: "repeat", of, least, most });
export const rule = (expression: () => Expression): Expression => ({ kind: "rule", expression });

/** One of some bytes, such as `0-9` as [0x30, 0x39]. */
export function bytes(...ranges: readonly (readonly [first: number, last: number])[]): Expression {
  const allows = new Uint8Array(256);
  for (const [first, last] of ranges) allows.fill(1, first, last + 1);
  return { kind: "byte", allows };
}

/** One of the characters of a text, all of ASCII. */
export const oneOf = (characters: string): Expression =>
  bytes(...Array.from(characters, (one) => [one.charCodeAt(0), one.charCodeAt(0)] as const));

/** A text. */
export const literal = (text: string): Expression =>
  sequence(...Array.from(Buffer.from(text, "utf8"), (byte) => bytes([byte, byte])));

/** An expression, and what comes after it. Equal ones are one object. */
interface Step {
  readonly id: number;
  readonly expression: Expression;
  readonly next: Step | undefined;
  readonly before: Map<Expression, Step>;
}

/** What may come after some bytes. Equal ones are one object of a reader. */
export interface State {
  readonly steps: readonly Step[];
  /** Whether the bytes so far are whole. */
  readonly isComplete: boolean;
  /** By byte; null where the byte may not come, undefined where nothing has asked yet. */
  readonly after: (State | null | undefined)[];
}

/** States of one grammar. */
export class ByteReader {
  readonly start: State;
  readonly #first = new Map<Expression, Step>();
  readonly #states = new Map<string, State>();
  #steps = 0;

  constructor(grammar: Expression) {
    this.start = this.#stateOf([this.#step(grammar, undefined)]);
  }

  /** Number of states so far. */
  get size(): number {
    return this.#states.size;
  }

  /** The state after a byte; null if it may not come. */
  next(state: State, byte: number): State | null {
    const known = state.after[byte];
    if (known !== undefined) return known;
    const following: (Step | undefined)[] = [];
    for (const { expression, next } of state.steps) {
      if (expression.kind === "byte" && expression.allows[byte] === 1) following.push(next);
    }
    const found = following.length === 0 ? null : this.#stateOf(following);
    state.after[byte] = found;
    return found;
  }

  /** @param starts undefined is the end */
  #stateOf(starts: readonly (Step | undefined)[]): State {
    const seen = new Set<Step>();
    const steps: Step[] = [];
    let isComplete = false;
    const open = [...starts];
    while (open.length > 0) {
      const step = open.pop();
      if (step === undefined) isComplete = true;
      // A rule that refers to itself at once comes back to the same step.
      if (step === undefined || seen.has(step)) continue;
      seen.add(step);
      const { expression, next } = step;
      if (expression.kind === "byte") steps.push(step);
      else if (expression.kind === "rule") open.push(this.#step(expression.expression(), next));
      else if (expression.kind === "choice") for (const one of expression.of) open.push(this.#step(one, next));
      else if (expression.kind === "sequence") {
        open.push(expression.of.reduceRight<Step | undefined>((after, one) => this.#step(one, after), next));
      } else {
        const { of, least, most } = expression;
        if (least <= 0) open.push(next);
        const isEndless = least <= 0 && most === Number.POSITIVE_INFINITY;
        expression.rest ??= isEndless ? expression : repeat(of, Math.max(0, least - 1), most - 1);
        if (most > 0) open.push(this.#step(of, this.#step(expression.rest, next)));
      }
    }
    const key = `${isComplete} ${steps.map(({ id }) => id).sort((a, b) => a - b)}`;
    const known = this.#states.get(key);
    if (known) return known;
    const state: State = { steps, isComplete, after: new Array<State | null | undefined>(256) };
    this.#states.set(key, state);
    return state;
  }

  #step(expression: Expression, next: Step | undefined): Step {
    const before = next?.before ?? this.#first;
    const known = before.get(expression);
    if (known) return known;
    const made: Step = { id: this.#steps++, expression, next, before: new Map() };
    before.set(expression, made);
    return made;
  }
}
