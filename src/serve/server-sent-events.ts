// An answer as server-sent events: a stream of JSON values, with comments where nothing comes.
import type { ServerResponse } from "node:http";

const textOf = (data: string) => `data: ${data}\n\n`;

export class ServerSentEvents {
  readonly #response: ServerResponse;
  readonly #silence: ReturnType<typeof setInterval>;

  /** @param silentSeconds time after which clients and proxies hear that the stream is alive */
  constructor(response: ServerResponse, silentSeconds: number) {
    this.#response = response;
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
    // Clients skip comments. Proxies end connections on which nothing comes for a minute, as while a long prompt is read.
    this.#silence = setInterval(() => response.write(": waiting\n\n"), silentSeconds * 1000);
  }

  send(value: object): void {
    this.#silence.refresh();
    this.#response.write(textOf(JSON.stringify(value)));
  }

  /** No more comments: what is computed is sent, or failed. */
  stopWaiting(): void {
    clearInterval(this.#silence);
  }

  /** Ends the stream as OpenAI's API does. */
  end(): void {
    this.stopWaiting();
    this.#response.end(textOf("[DONE]"));
  }
}

/** Ends a stream that has begun with a value, such as an error. */
export function endWithEvent(response: ServerResponse, value: object): void {
  response.end(textOf(JSON.stringify(value)));
}
