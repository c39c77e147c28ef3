const MAX_ID = 100;

/** A part of a name that needs no quoting in a shell, unique and fit for a file. @param fallback if nothing is left */
export function freeId(name: string, taken: Set<string>, fallback: string): string {
  const plain = name
    .replace(/[^\p{L}\p{N}.+_-]+/gu, "-")
    .replace(/^[-.]+|[-.]+$/g, "")
    .slice(0, MAX_ID);
  const id = plain === "" ? fallback : plain;
  let free = id;
  // File names may not differ in case alone.
  for (let count = 2; taken.has(free.toLowerCase()); count++) free = `${id}-${count}`;
  taken.add(free.toLowerCase());
  return free;
}
