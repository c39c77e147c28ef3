// Eigenvalues and eigenvectors of a symmetric matrix in float64: Householder's reduction to tridiagonal form and implicit QL (Bowdler,
// Martin, Reinsch and Wilkinson 1968; tred2 and tql2 of EISPACK). Sums are formed in their order, one for each of several rows at once,
// so the numbers do not depend on vectors.

@inline
function at(v: usize, i: i32): usize {
  return v + (<usize>i << 3);
}

/** Products of four rows, `stride` bytes apart, with x over k elements, each added to its own of `sums`; in order. */
@inline
function addFourDots(rows: usize, stride: usize, x: usize, k: i32, sums: usize): void {
  let g01 = v128.load(sums);
  let g23 = v128.load(sums, 16);
  let i = 0;
  for (; i + 2 <= k; i += 2) {
    const r0 = v128.load(rows);
    const r1 = v128.load(rows + stride);
    const r2 = v128.load(rows + 2 * stride);
    const r3 = v128.load(rows + 3 * stride);
    const x0 = v128.load64_splat(x);
    const x1 = v128.load64_splat(x + 8);
    g01 = f64x2.add(g01, f64x2.mul(v128.shuffle<i64>(r0, r1, 0, 2), x0));
    g23 = f64x2.add(g23, f64x2.mul(v128.shuffle<i64>(r2, r3, 0, 2), x0));
    g01 = f64x2.add(g01, f64x2.mul(v128.shuffle<i64>(r0, r1, 1, 3), x1));
    g23 = f64x2.add(g23, f64x2.mul(v128.shuffle<i64>(r2, r3, 1, 3), x1));
    rows += 16;
    x += 16;
  }
  if (i < k) {
    const x0 = v128.load64_splat(x);
    g01 = f64x2.add(g01, f64x2.mul(f64x2(load<f64>(rows), load<f64>(rows + stride)), x0));
    g23 = f64x2.add(g23, f64x2.mul(f64x2(load<f64>(rows + 2 * stride), load<f64>(rows + 3 * stride)), x0));
  }
  v128.store(sums, g01);
  v128.store(sums, g23, 16);
}

/** e += the four rows, `stride` bytes apart, times four factors, one after the other. */
@inline
function addFourRows(e: usize, rows: usize, stride: usize, k: i32, f0: f64, f1: f64, f2: f64, f3: f64): void {
  let i = 0;
  for (; i + 2 <= k; i += 2) {
    let sum = f64x2.add(v128.load(e), f64x2.mul(v128.load(rows), f64x2.splat(f0)));
    sum = f64x2.add(sum, f64x2.mul(v128.load(rows + stride), f64x2.splat(f1)));
    sum = f64x2.add(sum, f64x2.mul(v128.load(rows + 2 * stride), f64x2.splat(f2)));
    v128.store(e, f64x2.add(sum, f64x2.mul(v128.load(rows + 3 * stride), f64x2.splat(f3))));
    e += 16;
    rows += 16;
  }
  if (i < k) {
    let sum = load<f64>(e) + load<f64>(rows) * f0;
    sum = sum + load<f64>(rows + stride) * f1;
    sum = sum + load<f64>(rows + 2 * stride) * f2;
    store<f64>(e, sum + load<f64>(rows + 3 * stride) * f3);
  }
}

/** a -= f x + g y */
@inline
function subtractTwo(a: usize, x: usize, y: usize, k: i32, f: f64, g: f64): void {
  let i = 0;
  for (; i + 2 <= k; i += 2) {
    const sum = f64x2.add(f64x2.mul(f64x2.splat(f), v128.load(x)), f64x2.mul(f64x2.splat(g), v128.load(y)));
    v128.store(a, f64x2.sub(v128.load(a), sum));
    a += 16;
    x += 16;
    y += 16;
  }
  if (i < k) store<f64>(a, load<f64>(a) - (f * load<f64>(x) + g * load<f64>(y)));
}

/** a -= g x */
@inline
function subtractOne(a: usize, x: usize, k: i32, g: f64): void {
  let i = 0;
  for (; i + 2 <= k; i += 2) {
    v128.store(a, f64x2.sub(v128.load(a), f64x2.mul(f64x2.splat(g), v128.load(x))));
    a += 16;
    x += 16;
  }
  if (i < k) store<f64>(a, load<f64>(a) - g * load<f64>(x));
}

/**
 * Reduces a symmetric matrix v [n, n] to tridiagonal form: d has its diagonal, e what is beside it, from e[1] on. The columns of the
 * transformation become the rows of v. `sums` is space for four numbers.
 */
export function tridiagonalize(v: usize, d: usize, e: usize, n: i32, sums: usize): void {
  const stride = <usize>n << 3;
  for (let j = 0; j < n; j++) store<f64>(at(d, j), load<f64>(at(v + <usize>j * stride, n - 1)));
  for (let i = n - 1; i > 0; i--) {
    let scale: f64 = 0;
    let h: f64 = 0;
    for (let k = 0; k < i; k++) scale += abs(load<f64>(at(d, k)));
    if (scale == 0) {
      store<f64>(at(e, i), load<f64>(at(d, i - 1)));
      for (let j = 0; j < i; j++) {
        const row = v + <usize>j * stride;
        store<f64>(at(d, j), load<f64>(at(row, i - 1)));
        store<f64>(at(row, i), 0);
        store<f64>(at(v + <usize>i * stride, j), 0);
      }
    } else {
      for (let k = 0; k < i; k++) {
        const x = load<f64>(at(d, k)) / scale;
        store<f64>(at(d, k), x);
        h += x * x;
      }
      const f = load<f64>(at(d, i - 1));
      let g = sqrt(h);
      if (f > 0) g = -g;
      store<f64>(at(e, i), scale * g);
      h = h - f * g;
      store<f64>(at(d, i - 1), f - g);
      multiply(v, d, e, i, stride, sums);
      let product: f64 = 0;
      for (let j = 0; j < i; j++) {
        const x = load<f64>(at(e, j)) / h;
        store<f64>(at(e, j), x);
        product += x * load<f64>(at(d, j));
      }
      const hh = product / (h + h);
      subtractOne(e, d, i, hh);
      for (let j = 0; j < i; j++) {
        const row = v + <usize>j * stride;
        subtractTwo(at(row, j), at(e, j), at(d, j), i - j, load<f64>(at(d, j)), load<f64>(at(e, j)));
        store<f64>(at(d, j), load<f64>(at(row, i - 1)));
        store<f64>(at(row, i), 0);
      }
    }
    store<f64>(at(d, i), h);
  }
  accumulate(v, d, n, stride, sums);
  store<f64>(e, 0);
}

/** e = the matrix, of which the rows have what is right of the diagonal, times d; d becomes row i of v. */
function multiply(v: usize, d: usize, e: usize, i: i32, stride: usize, sums: usize): void {
  memory.copy(v + <usize>i * stride, d, <usize>i << 3);
  memory.fill(e, 0, <usize>i << 3);
  let j = 0;
  for (; j + 4 <= i; j += 4) {
    const rows = v + <usize>j * stride;
    for (let a = 0; a < 4; a++) {
      const row = rows + <usize>a * stride;
      const f = load<f64>(at(d, j + a));
      let g = load<f64>(at(e, j + a)) + load<f64>(at(row, j + a)) * f;
      for (let k = j + a + 1; k < j + 4; k++) {
        g += load<f64>(at(row, k)) * load<f64>(at(d, k));
        store<f64>(at(e, k), load<f64>(at(e, k)) + load<f64>(at(row, k)) * f);
      }
      store<f64>(at(sums, a), g);
    }
    const rest = at(rows, j + 4);
    const k = i - j - 4;
    addFourDots(rest, stride, at(d, j + 4), k, sums);
    const f = at(d, j);
    addFourRows(at(e, j + 4), rest, stride, k, load<f64>(f), load<f64>(f, 8), load<f64>(f, 16), load<f64>(f, 24));
    memory.copy(at(e, j), sums, 32);
  }
  for (; j < i; j++) {
    const row = v + <usize>j * stride;
    const f = load<f64>(at(d, j));
    let g = load<f64>(at(e, j)) + load<f64>(at(row, j)) * f;
    for (let k = j + 1; k < i; k++) {
      g += load<f64>(at(row, k)) * load<f64>(at(d, k));
      store<f64>(at(e, k), load<f64>(at(e, k)) + load<f64>(at(row, k)) * f);
    }
    store<f64>(at(e, j), g);
  }
}

/** Multiplies the reflections that v holds; d becomes the diagonal. */
function accumulate(v: usize, d: usize, n: i32, stride: usize, sums: usize): void {
  for (let i = 0; i < n - 1; i++) {
    const own = v + <usize>i * stride;
    const next = own + stride;
    store<f64>(at(own, n - 1), load<f64>(at(own, i)));
    store<f64>(at(own, i), 1);
    const h = load<f64>(at(d, i + 1));
    if (h != 0) {
      const count = i + 1;
      for (let k = 0; k < count; k++) store<f64>(at(d, k), load<f64>(at(next, k)) / h);
      let j = 0;
      for (; j + 4 <= count; j += 4) {
        const rows = v + <usize>j * stride;
        memory.fill(sums, 0, 32);
        addFourDots(rows, stride, next, count, sums);
        for (let a = 0; a < 4; a++) subtractOne(rows + <usize>a * stride, d, count, load<f64>(at(sums, a)));
      }
      for (; j < count; j++) {
        const row = v + <usize>j * stride;
        let g: f64 = 0;
        for (let k = 0; k < count; k++) g += load<f64>(at(next, k)) * load<f64>(at(row, k));
        subtractOne(row, d, count, g);
      }
    }
    memory.fill(next, 0, <usize>(i + 1) << 3);
  }
  for (let j = 0; j < n; j++) {
    const last = at(v + <usize>j * stride, n - 1);
    store<f64>(at(d, j), load<f64>(last));
    store<f64>(last, 0);
  }
  store<f64>(at(v + <usize>(n - 1) * stride, n - 1), 1);
}

@inline
function hypotenuse(a: f64, b: f64): f64 {
  if (abs(a) > abs(b)) {
    const r = b / a;
    return abs(a) * sqrt(1 + r * r);
  }
  if (b == 0) return 0;
  const r = a / b;
  return abs(b) * sqrt(1 + r * r);
}

/** Columns of v that turn together: with their rows they stay in a second-level cache. */
const TOGETHER: i32 = 8;

/**
 * Turns pairs of neighbouring rows of v [n, n]: for each run of rotations [count, first, then sine and cosine of each] those from the
 * row above `first` down. Turned columns do not depend on each other. `panel` is space for [n, 8].
 */
function turn(v: usize, n: i32, runs: usize, end: usize, panel: usize): void {
  const stride = <usize>n << 3;
  for (let from = 0; from < n; from += TOGETHER) {
    const bytes = <usize>min(TOGETHER, n - from) << 3;
    const first = at(v, from);
    for (let i = 0; i < n; i++) memory.copy(panel + (<usize>i << 6), first + <usize>i * stride, bytes);
    for (let run = runs; run < end; ) {
      const count = <i32>load<f64>(run);
      let row = panel + (<usize>load<f64>(run, 8) << 6);
      run += 16;
      let h0 = v128.load(row);
      let h1 = v128.load(row, 16);
      let h2 = v128.load(row, 32);
      let h3 = v128.load(row, 48);
      for (let k = 0; k < count; k++) {
        const s = v128.load64_splat(run);
        const c = v128.load64_splat(run, 8);
        const x0 = v128.load(row - 64);
        const x1 = v128.load(row - 48);
        const x2 = v128.load(row - 32);
        const x3 = v128.load(row - 16);
        v128.store(row, f64x2.add(f64x2.mul(s, x0), f64x2.mul(c, h0)));
        v128.store(row, f64x2.add(f64x2.mul(s, x1), f64x2.mul(c, h1)), 16);
        v128.store(row, f64x2.add(f64x2.mul(s, x2), f64x2.mul(c, h2)), 32);
        v128.store(row, f64x2.add(f64x2.mul(s, x3), f64x2.mul(c, h3)), 48);
        h0 = f64x2.sub(f64x2.mul(c, x0), f64x2.mul(s, h0));
        h1 = f64x2.sub(f64x2.mul(c, x1), f64x2.mul(s, h1));
        h2 = f64x2.sub(f64x2.mul(c, x2), f64x2.mul(s, h2));
        h3 = f64x2.sub(f64x2.mul(c, x3), f64x2.mul(s, h3));
        row -= 64;
        run += 16;
      }
      v128.store(row, h0);
      v128.store(row, h1, 16);
      v128.store(row, h2, 32);
      v128.store(row, h3, 48);
    }
    for (let i = 0; i < n; i++) memory.copy(first + <usize>i * stride, panel + (<usize>i << 6), bytes);
  }
}

/**
 * Eigenvalues (d, in no order) and eigenvectors (rows of v) of a tridiagonal matrix, from what `tridiagonalize` makes.
 * @param panel space for [n, 8]
 * @param runs space for rotations, of `size` bytes: at least 16 (n + 1)
 */
export function solveTridiagonal(v: usize, d: usize, e: usize, n: i32, panel: usize, runs: usize, size: i32): void {
  memory.copy(e, e + 8, <usize>(n - 1) << 3);
  store<f64>(at(e, n - 1), 0);
  const eps: f64 = 2.220446049250313e-16;
  const full = runs + <usize>size;
  let end = runs;
  let f: f64 = 0;
  let most: f64 = 0;
  for (let l = 0; l < n; l++) {
    most = max(most, abs(load<f64>(at(d, l))) + abs(load<f64>(at(e, l))));
    let m = l;
    while (m < n - 1 && !(abs(load<f64>(at(e, m))) <= eps * most)) m++;
    if (m > l) {
      do {
        if (end + (<usize>(m - l + 1) << 4) > full) {
          turn(v, n, runs, end, panel);
          end = runs;
        }
        let g = load<f64>(at(d, l));
        let p = (load<f64>(at(d, l + 1)) - g) / (2 * load<f64>(at(e, l)));
        let r = hypotenuse(p, 1);
        if (p < 0) r = -r;
        store<f64>(at(d, l), load<f64>(at(e, l)) / (p + r));
        store<f64>(at(d, l + 1), load<f64>(at(e, l)) * (p + r));
        const dl1 = load<f64>(at(d, l + 1));
        let h = g - load<f64>(at(d, l));
        for (let i = l + 2; i < n; i++) store<f64>(at(d, i), load<f64>(at(d, i)) - h);
        f = f + h;
        p = load<f64>(at(d, m));
        let c: f64 = 1;
        let c2: f64 = 1;
        let c3: f64 = 1;
        const el1 = load<f64>(at(e, l + 1));
        let s: f64 = 0;
        let s2: f64 = 0;
        store<f64>(end, <f64>(m - l));
        store<f64>(end, <f64>m, 8);
        end += 16;
        for (let i = m - 1; i >= l; i--) {
          c3 = c2;
          c2 = c;
          s2 = s;
          g = c * load<f64>(at(e, i));
          h = c * p;
          r = hypotenuse(p, load<f64>(at(e, i)));
          store<f64>(at(e, i + 1), s * r);
          s = load<f64>(at(e, i)) / r;
          c = p / r;
          p = c * load<f64>(at(d, i)) - s * g;
          store<f64>(at(d, i + 1), h + s * (c * g + s * load<f64>(at(d, i))));
          store<f64>(end, s);
          store<f64>(end, c, 8);
          end += 16;
        }
        p = (-s * s2 * c3 * el1 * load<f64>(at(e, l))) / dl1;
        store<f64>(at(e, l), s * p);
        store<f64>(at(d, l), c * p);
      } while (abs(load<f64>(at(e, l))) > eps * most);
    }
    store<f64>(at(d, l), load<f64>(at(d, l)) + f);
    store<f64>(at(e, l), 0);
  }
  turn(v, n, runs, end, panel);
}
