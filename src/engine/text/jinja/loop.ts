// The variable `loop`. Entries are read only as far as the template asks, as conditions of a loop may depend on its body.
import { isEqual } from "./compare.js";
import { fail, firstOf, iterate, Lazy, lengthOf, listOf, Thing, Tuple, Undefined, type Value } from "./values.js";

export class Loop {
  private iterator: Iterator<Value>;
  private ahead: IteratorResult<Value> | undefined;
  private total: number | undefined;
  private index = -1;
  private before: Value | undefined;
  private current: Value | undefined;
  private changing: Value | undefined;
  readonly thing: Thing;

  private readonly items: Value;
  private readonly depth: number;

  /** @param again renders the body for the entries of a value; only of recursive loops */
  constructor(items: Value, depth: number, again?: (items: Value) => Value) {
    this.items = items;
    this.depth = depth;
    this.iterator = iterate(items);
    const call =
      again &&
      ((args: readonly Value[]) => again(args[0] === undefined ? fail("loop() needs the entries to render") : args[0]));
    this.thing = new Thing("LoopContext", call, (name) => this.field(name));
  }

  next(): Value | undefined {
    const found = this.peek();
    this.ahead = undefined;
    if (found === undefined) return undefined;
    this.index++;
    this.before = this.current;
    this.current = found;
    return found;
  }

  private peek(): Value | undefined {
    this.ahead ??= this.iterator.next();
    return this.ahead.done ? undefined : this.ahead.value;
  }

  private length(): number {
    if (this.total !== undefined) return this.total;
    if (!(this.items instanceof Lazy)) this.total = lengthOf(this.items);
    else {
      const rest = listOf(new Lazy(this.iterator));
      this.iterator = iterate(rest);
      this.total = rest.length + this.index + 1 + (this.ahead && !this.ahead.done ? 1 : 0);
      if (this.ahead?.done) this.ahead = undefined;
    }
    return this.total;
  }

  private field(name: string): Value | undefined {
    switch (name) {
      case "index":
        return BigInt(this.index + 1);
      case "index0":
        return BigInt(this.index);
      case "revindex":
        return BigInt(this.length() - this.index);
      case "revindex0":
        return BigInt(this.length() - this.index - 1);
      case "first":
        return this.index === 0;
      case "last":
        return this.peek() === undefined;
      case "length":
        return BigInt(this.length());
      case "depth":
        return BigInt(this.depth + 1);
      case "depth0":
        return BigInt(this.depth);
      case "previtem":
        return firstOf(this.before, new Undefined("there is no previous item"));
      case "nextitem":
        return firstOf(this.peek(), new Undefined("there is no next item"));
      case "cycle":
        return new Thing("method", (args) =>
          args.length > 0 ? (args[this.index % args.length] as Value) : fail("no items for cycling given"),
        );
      case "changed":
        return new Thing("method", (args) => {
          const now = new Tuple(args);
          const isChanged = this.changing === undefined || !isEqual(this.changing, now);
          this.changing = now;
          return isChanged;
        });
      default:
        return undefined;
    }
  }
}
