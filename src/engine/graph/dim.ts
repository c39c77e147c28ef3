// Sizes of axes: numbers, or polynomials in symbols such as `batch` and `time` in canonical form, so that equal sizes are
// equal strings. A quotient that is rounded up is a symbol, too: `time/64`.

/** A size: a number, or an expression such as `batch`, `2*batch*time`, `past+time`, `64*time/64`. */
export type Dim = number | string;

/** Terms of a polynomial: the product of symbols (sorted, joined by `*`; "" for the constant) and its factor. */
type Polynomial = Map<string, number>;

function parse(dim: Dim): Polynomial {
  if (typeof dim === "number") return new Map(dim === 0 ? [] : [["", dim]]);
  return collect(
    dim.split("+").map((term): [string, number] => {
      const factors = term.split("*");
      const numbers = factors.filter((factor) => /^\d+$/.test(factor)).map(Number);
      const symbols = factors.filter((factor) => !/^\d+$/.test(factor)).sort();
      return [symbols.join("*"), numbers.reduce((product, factor) => product * factor, 1)];
    }),
  );
}

function collect(terms: readonly (readonly [string, number])[]): Polynomial {
  const sum: Polynomial = new Map();
  for (const [symbols, factor] of terms) sum.set(symbols, (sum.get(symbols) ?? 0) + factor);
  for (const [symbols, factor] of sum) if (factor === 0) sum.delete(symbols);
  return sum;
}

function format(polynomial: Polynomial): Dim {
  if (polynomial.size === 0) return 0;
  const [constant] = polynomial.size === 1 ? [polynomial.get("")] : [];
  if (constant !== undefined) return constant;
  const terms = [...polynomial].sort(([a], [b]) => (a < b ? -1 : 1));
  return terms
    .map(([symbols, factor]) => (symbols === "" ? `${factor}` : factor === 1 ? symbols : `${factor}*${symbols}`))
    .join("+");
}

export function addDims(...dims: readonly Dim[]): Dim {
  return format(collect(dims.flatMap((dim) => [...parse(dim)])));
}

export function multiplyDims(...dims: readonly Dim[]): Dim {
  let product: Polynomial = new Map([["", 1]]);
  for (const factors of dims.map(parse)) {
    const left = [...product];
    product = collect(
      left.flatMap(([a, x]) => [...factors].map(([b, y]): [string, number] => [joinSymbols(a, b), x * y])),
    );
  }
  return format(product);
}

function joinSymbols(a: string, b: string): string {
  return [...a.split("*"), ...b.split("*")].filter(Boolean).sort().join("*");
}

/** The symbols of a size. */
export function symbolsOf(dim: Dim): string[] {
  return [...new Set([...parse(dim).keys()].flatMap((symbols) => (symbols === "" ? [] : symbols.split("*"))))];
}

/** The terms of a size: each a factor and the symbols it is multiplied with. */
export function termsOf(dim: Dim): { readonly factor: number; readonly symbols: readonly string[] }[] {
  return [...parse(dim)].map(([symbols, factor]) => ({ factor, symbols: symbols === "" ? [] : symbols.split("*") }));
}

/** a - b; undefined where it may be negative. */
export function subtractDims(a: Dim, b: Dim): Dim | undefined {
  const less = [...parse(b)].map(([symbols, factor]): [string, number] => [symbols, -factor]);
  const rest = collect([...parse(a), ...less]);
  return [...rest.values()].every((factor) => factor > 0) ? format(rest) : undefined;
}

/** How many parts of a size a number or a symbol has, rounded up. */
export function divideDim(dim: Dim, by: number): Dim {
  return typeof dim === "number" ? Math.ceil(dim / by) : `${dim}/${by}`;
}

/** The symbol and the divisor of a quotient; undefined for another symbol. */
export function quotientOf(symbol: string): { readonly dim: string; readonly by: number } | undefined {
  const [dim = "", by] = symbol.split("/");
  return by === undefined ? undefined : { dim, by: Number(by) };
}

/** Whether this is a valid size: a whole number, or sums of products of names and numbers. */
export function isDim(dim: Dim): boolean {
  if (typeof dim === "number") return Number.isSafeInteger(dim) && dim >= 0;
  return /^[\w.]+(\/\d+)?([*+][\w.]+(\/\d+)?)*$/.test(dim);
}

/** Number of elements of a shape. */
export function sizeOf(shape: readonly Dim[]): Dim {
  return multiplyDims(...shape);
}

export function sameDims(a: readonly Dim[], b: readonly Dim[]): boolean {
  return a.length === b.length && a.every((dim, axis) => dim === b[axis]);
}
