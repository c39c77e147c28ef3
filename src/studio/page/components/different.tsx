import { diffWords } from "diff";

/** A text whose words that are not in another one are marked. */
export function Different({ from, to }: { from: string; to: string }) {
  // Long texts would take seconds; people do not compare them by word.
  if (from.length + to.length > 20_000) return <>{to}</>;
  return (
    <>
      {diffWords(from, to).map(({ value, added, removed }, i) => {
        if (removed) return null;
        return added ? <mark key={`${i} ${value}`}>{value}</mark> : value;
      })}
    </>
  );
}
