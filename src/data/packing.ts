// Which examples share a sequence.

/**
 * Best-fit decreasing: puts the longest items first, each into the fullest bin with room (Johnson et al., SIAM Journal on
 * Computing 3, 1974: at most 11/9 of the optimum and a few).
 * @param lengths each at most `capacity`
 * @returns bins of item numbers, each in ascending order, in the order in which they were opened
 */
export function pack(lengths: readonly number[], capacity: number): number[][] {
  const longestFirst = lengths.map((_, i) => i).sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || a - b);
  const bins: number[][] = [];
  /** Bins by their room, the last opened on top. */
  const byRoom: number[][] = Array.from({ length: capacity + 1 }, () => []);
  for (const item of longestFirst) {
    const length = lengths[item] ?? 0;
    if (length > capacity) throw new RangeError(`an item of length ${length} does not fit into ${capacity}`);
    let room = length;
    while (room <= capacity && byRoom[room]?.length === 0) room++;
    const bin = byRoom[room]?.pop() ?? bins.push([]) - 1;
    bins[bin]?.push(item);
    byRoom[Math.min(room, capacity) - length]?.push(bin);
  }
  return bins.map((items) => items.sort((a, b) => a - b));
}
