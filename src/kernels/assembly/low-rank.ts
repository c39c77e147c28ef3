// The product of a low-rank adapter, added to rows of a weight: acc[i, j] += scale * sum_k left[i, k] right[k, j]. The
// sum runs over k in order, in float32, so the result does not depend on how rows are cut into pieces.

@inline
function addTo(address: usize, sum: v128, scale: v128): void {
  v128.store(address, f32x4.add(v128.load(address), f32x4.mul(sum, scale)));
}

/** `acc` [rows, columns], `left` [rows, rank], `right` [rank, columns]; all float32. */
export function addLowRank(acc: usize, left: usize, right: usize, rows: i32, columns: i32, rank: i32, scale: f32): void {
  const s = f32x4.splat(scale);
  const stride = (<usize>columns) << 2;
  for (let row = 0; row < rows; row++) {
    let column = 0;
    for (; column + 16 <= columns; column += 16) {
      let s0 = f32x4.splat(0);
      let s1 = f32x4.splat(0);
      let s2 = f32x4.splat(0);
      let s3 = f32x4.splat(0);
      let r = right + ((<usize>column) << 2);
      for (let k = 0; k < rank; k++) {
        const l = v128.load32_splat(left + ((<usize>k) << 2));
        s0 = f32x4.add(s0, f32x4.mul(l, v128.load(r)));
        s1 = f32x4.add(s1, f32x4.mul(l, v128.load(r, 16)));
        s2 = f32x4.add(s2, f32x4.mul(l, v128.load(r, 32)));
        s3 = f32x4.add(s3, f32x4.mul(l, v128.load(r, 48)));
        r += stride;
      }
      const out = acc + ((<usize>column) << 2);
      addTo(out, s0, s);
      addTo(out + 16, s1, s);
      addTo(out + 32, s2, s);
      addTo(out + 48, s3, s);
    }
    for (; column < columns; column++) {
      let sum: f32 = 0;
      for (let k = 0; k < rank; k++) {
        sum += load<f32>(left + ((<usize>k) << 2)) * load<f32>(right + (<usize>k) * stride + ((<usize>column) << 2));
      }
      const out = acc + ((<usize>column) << 2);
      store<f32>(out, load<f32>(out) + sum * scale);
    }
    acc += stride;
    left += (<usize>rank) << 2;
  }
}

/** Scales each row of `acc` [rows, columns] to the length that `lengths` has for it (DoRA, arXiv 2402.09353, equation 5). */
export function setLengths(acc: usize, lengths: usize, rows: i32, columns: i32): void {
  for (let row = 0; row < rows; row++) {
    let low = f64x2.splat(0);
    let high = f64x2.splat(0);
    let column = 0;
    for (; column + 4 <= columns; column += 4) {
      const x = v128.load(acc + ((<usize>column) << 2));
      const first = f64x2.promote_low_f32x4(x);
      const last = f64x2.promote_low_f32x4(i32x4.shuffle(x, x, 2, 3, 2, 3));
      low = f64x2.add(low, f64x2.mul(first, first));
      high = f64x2.add(high, f64x2.mul(last, last));
    }
    const sum = f64x2.add(low, high);
    let squares = f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1);
    for (; column < columns; column++) {
      const x = <f64>load<f32>(acc + ((<usize>column) << 2));
      squares += x * x;
    }
    const factor = load<f32>(lengths + ((<usize>row) << 2)) / <f32>sqrt(squares);
    for (column = 0; column + 4 <= columns; column += 4) {
      const at = acc + ((<usize>column) << 2);
      v128.store(at, f32x4.mul(v128.load(at), f32x4.splat(factor)));
    }
    for (; column < columns; column++) {
      const at = acc + ((<usize>column) << 2);
      store<f32>(at, load<f32>(at) * factor);
    }
    acc += (<usize>columns) << 2;
  }
}
