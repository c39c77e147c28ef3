/**
 * A blob that reports the bytes that are read of it, each time it is read. The fetch of Node.js does not say what is sent.
 * @param onBytes called with the bytes of each part, and of all since the start
 */
export function countedBody(blob: Blob, onBytes: (bytes: number, done: number) => void): Blob {
  const stream = () => {
    let done = 0;
    const count = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        done += chunk.length;
        onBytes(chunk.length, done);
        controller.enqueue(chunk);
      },
    });
    return blob.stream().pipeThrough(count);
  };
  return Object.defineProperties(new Blob([]), { size: { value: blob.size }, stream: { value: stream } });
}
