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

type Titled = readonly [title: string, text: string];

/** Two texts side by side; in each, what the other lacks is marked. */
export function Versions({ first, second }: { first: Titled; second: Titled }) {
  const version = ([title, to]: Titled, from: string) => (
    <div>
      <h3>{title}</h3>
      <pre tabIndex={0}>
        <Different from={from} to={to} />
      </pre>
    </div>
  );
  return (
    <div class="versions">
      {version(first, second[1])}
      {version(second, first[1])}
    </div>
  );
}
