export function Models() {
  return <h1>Models</h1>;
}
