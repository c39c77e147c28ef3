// The variable `loop`. Entries are read only as far as the template asks, as conditions of a loop may depend on its body.
import { fail, firstOf, iterate, Lazy, lengthOf, listOf, Thing, Undefined, type Value } from "./values.js";

export class Loop {
  private iterator: Iterator<Value>;
  private ahead: IteratorResult<Value> | undefined;
  private total: number | undefined;
  private index = -1;
  private before: Value | undefined;
  private current: Value | undefined;
  readonly thing: Thing;

  private readonly items: Value;

  constructor(items: Value) {
    this.items = items;
    this.iterator = iterate(items);
    this.thing = new Thing("LoopContext", undefined, (name) => this.field(name));
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
        return 1n;
      case "depth0":
        return 0n;
      case "previtem":
        return firstOf(this.before, new Undefined("there is no previous item"));
      case "nextitem":
        return firstOf(this.peek(), new Undefined("there is no next item"));
      case "cycle":
        return new Thing("method", (args) =>
          args.length > 0 ? (args[this.index % args.length] as Value) : fail("no items for cycling given"),
        );
      default:
        return undefined;
    }
  }
}
