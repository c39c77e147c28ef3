// The grammar of JSON that fits a schema of `answerSchema`. Objects have the properties that are named, in their order.
import { isObject, type JsonObject } from "../../kit/index.js";
import { bytes, choice, type Expression, literal, oneOf, optional, repeat, rule, sequence } from "./byte-grammar.js";

const UNLIMITED = Number.POSITIVE_INFINITY;
/** Spaces after a line break; a model that finds no end would go on with them. */
const MOST_INDENTATION = 20;
/** Digits of a whole number, of a fraction and of an exponent: those of any double. */
const MOST_DIGITS = 16;
const MOST_EXPONENT_DIGITS = 2;

const SPACE = optional(choice(literal(" "), sequence(literal("\n"), repeat(oneOf(" \t"), 0, MOST_INDENTATION))));
const DIGIT = bytes([0x30, 0x39]);
const HEXADECIMAL = bytes([0x30, 0x39], [0x41, 0x46], [0x61, 0x66]);
const CONTINUED = bytes([0x80, 0xbf]);
const CHARACTER = choice(
  bytes([0x20, 0x21], [0x23, 0x5b], [0x5d, 0x7f]),
  sequence(bytes([0xc2, 0xdf]), CONTINUED),
  sequence(bytes([0xe0, 0xe0]), bytes([0xa0, 0xbf]), CONTINUED),
  sequence(bytes([0xe1, 0xec], [0xee, 0xef]), CONTINUED, CONTINUED),
  sequence(bytes([0xed, 0xed]), bytes([0x80, 0x9f]), CONTINUED),
  sequence(bytes([0xf0, 0xf0]), bytes([0x90, 0xbf]), CONTINUED, CONTINUED),
  sequence(bytes([0xf1, 0xf3]), CONTINUED, CONTINUED, CONTINUED),
  sequence(bytes([0xf4, 0xf4]), bytes([0x80, 0x8f]), CONTINUED, CONTINUED),
  sequence(literal("\\"), choice(oneOf('"\\/bfnrt'), sequence(literal("u"), repeat(HEXADECIMAL, 4, 4)))),
);

const WHOLE = sequence(
  optional(literal("-")),
  choice(literal("0"), sequence(bytes([0x31, 0x39]), repeat(DIGIT, 0, MOST_DIGITS - 1))),
);
const NUMBER = sequence(
  WHOLE,
  optional(sequence(literal("."), repeat(DIGIT, 1, MOST_DIGITS))),
  optional(sequence(oneOf("eE"), optional(oneOf("+-")), repeat(DIGIT, 1, MOST_EXPONENT_DIGITS))),
);

const between = (tens: string, most: string) => sequence(oneOf(tens), oneOf(most));
const DATE = sequence(
  ...[repeat(DIGIT, 4, 4), literal("-"), choice(between("0", "123456789"), between("1", "012")), literal("-")],
  choice(between("0", "123456789"), sequence(oneOf("12"), DIGIT), between("3", "01")),
);
const HOURS = choice(sequence(oneOf("01"), DIGIT), between("2", "0123"));
const SIXTY = sequence(oneOf("012345"), DIGIT);
const TIME = sequence(
  ...[HOURS, literal(":"), SIXTY, literal(":"), SIXTY, optional(sequence(literal("."), repeat(DIGIT, 1, 6)))],
  choice(literal("Z"), sequence(oneOf("+-"), HOURS, literal(":"), SIXTY)),
);
const FORMATS: Readonly<Record<string, Expression>> = {
  date: DATE,
  time: TIME,
  "date-time": sequence(DATE, literal("T"), TIME),
};

const quoted = (inner: Expression) => sequence(literal('"'), inner, literal('"'));
const text = (least = 0, most = UNLIMITED) => quoted(repeat(CHARACTER, least, most));
const TEXT = text();

/** Entries between two brackets, separated by commas. */
const list = (open: string, entries: Expression, close: string) =>
  sequence(literal(open), SPACE, entries, SPACE, literal(close));

/** Each after the other, separated by commas. */
const inOrder = (entries: readonly Expression[]) =>
  sequence(...entries.flatMap((entry, i) => (i === 0 ? [entry] : [literal(","), SPACE, entry])));

/** As many of one kind as are asked for, separated by commas. */
function many(entry: Expression, least: number, most: number): Expression {
  if (most < 1) return sequence();
  const some = sequence(entry, repeat(sequence(literal(","), SPACE, entry), Math.max(0, least - 1), most - 1));
  return least > 0 ? some : optional(some);
}

const pair = (key: Expression, value: Expression) => sequence(key, literal(":"), SPACE, value);

/** Any JSON value. */
const ANY: Expression = rule(() => ANY_VALUE);
const ANY_VALUE = choice(
  list("{", many(pair(TEXT, ANY), 0, UNLIMITED), "}"),
  list("[", many(ANY, 0, UNLIMITED), "]"),
  ...[TEXT, NUMBER, literal("true"), literal("false"), literal("null")],
);

/** @param schema as `answerSchema` returns it */
export function jsonGrammar(schema: JsonObject): Expression {
  const { $defs, ...root } = schema;
  const named = new Map<string, Expression>();
  for (const [name, value] of Object.entries(isObject($defs) ? $defs : {})) named.set(name, read(value as JsonObject));
  return sequence(SPACE, read(root));

  function read(value: JsonObject): Expression {
    const { $ref, enum: values, oneOf: variants, type } = value;
    if ($ref !== undefined) {
      const name = String($ref).replace("#/$defs/", "");
      return rule(() => named.get(name) as Expression);
    }
    if (Array.isArray(values)) return choice(...values.map((one) => literal(JSON.stringify(one))));
    if (Array.isArray(variants)) return choice(...variants.map(read));
    if (type === "object") return readObject(value);
    if (type === "array") return readArray(value);
    if (type === "string") {
      const { format, minLength = 0, maxLength = UNLIMITED } = value;
      if (format !== undefined) return quoted(FORMATS[String(format)] as Expression);
      return text(Number(minLength), Number(maxLength));
    }
    if (type === "number") return NUMBER;
    if (type === "integer") return WHOLE;
    return type === "boolean" ? choice(literal("true"), literal("false")) : literal("null");
  }

  function readObject({ properties, additionalProperties: others }: JsonObject): Expression {
    const own = Object.entries(isObject(properties) ? properties : {});
    if (own.length > 0) {
      const pairs = own.map(([key, one]) => pair(literal(JSON.stringify(key)), read(one as JsonObject)));
      // Without further ones, as a key that comes twice counts once.
      return list("{", inOrder(pairs), "}");
    }
    const value = isObject(others) ? read(others) : ANY;
    return list("{", others === false ? sequence() : many(pair(TEXT, value), 0, UNLIMITED), "}");
  }

  function readArray({ items, prefixItems, minItems = 0, maxItems = UNLIMITED }: JsonObject): Expression {
    const item = isObject(items) ? read(items) : ANY;
    if (!Array.isArray(prefixItems) || prefixItems.length === 0)
      return list("[", many(item, Number(minItems), Number(maxItems)), "]");
    const first = prefixItems.map(read);
    const rest = Math.max(0, Number(minItems) - first.length);
    const further = repeat(
      sequence(literal(","), SPACE, item),
      rest,
      items === undefined ? rest : Number(maxItems) - first.length,
    );
    return list("[", sequence(inOrder(first), further), "]");
  }
}
