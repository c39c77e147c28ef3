// Calls of the server: one function for every operation, and the stream of events.
import {
  event,
  failure,
  type Input,
  type OperationName,
  type Output,
  operations,
  type StudioEvent,
} from "../protocol/index.js";

/** What the server says is wrong, in a sentence for people. */
export class StudioError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

const KEY = "layergraft-studio-token";

/** The token of the address; it stays for reloads of this tab, and leaves the address bar. */
function tokenOf(): string {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(KEY) ?? "";
}
const token = tokenOf();
// The printed address, opened in a tab that has the page.
addEventListener("hashchange", () => {
  if (!location.hash.includes("token=")) return;
  tokenOf();
  location.reload();
});

async function request(path: string, init: RequestInit): Promise<Response> {
  const headers = { ...init.headers, authorization: `Bearer ${token}` };
  const response = await fetch(`/api/${path}`, { ...init, headers }).catch(() => {
    throw new StudioError("offline", "The studio's server does not answer. Start it again with layergraft studio.");
  });
  if (response.ok) return response;
  if (response.status === 401) {
    throw new StudioError(
      "locked",
      "This address lacks the project's key. Open the one that layergraft studio printed.",
    );
  }
  const { data } = failure.safeParse(await response.json().catch(() => undefined));
  throw new StudioError(
    data?.error.code ?? "internal",
    data?.error.message ?? `The server replied ${response.status}.`,
  );
}

export async function call<N extends OperationName>(
  name: N,
  input: Input<N>,
  signal?: AbortSignal,
): Promise<Output<N>> {
  const response = await request(name, {
    method: "POST",
    body: JSON.stringify(input),
    headers: { "content-type": "application/json" },
    signal: signal ?? null,
  });
  return operations[name].output.parse(await response.json()) as Output<N>;
}

/** Milliseconds before a broken stream is opened again. */
const AGAIN = 1000;

/**
 * Follows the events for as long as the page is open.
 * @param onState called with true when events come, false when the server is gone
 */
export async function followEvents(
  onEvent: (event: StudioEvent) => void,
  onState: (isConnected: boolean) => void,
): Promise<never> {
  for (;;) {
    try {
      const { body } = await request("events", { method: "GET" });
      onState(true);
      const reader = (body as ReadableStream<Uint8Array>).getReader();
      const decoder = new TextDecoder();
      let rest = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const blocks = (rest + decoder.decode(part.value, { stream: true })).split("\n\n");
        rest = blocks.pop() ?? "";
        for (const block of blocks) {
          if (block.startsWith("data: ")) onEvent(event.parse(JSON.parse(block.slice("data: ".length))));
        }
      }
      onState(false);
    } catch (error) {
      // The server is gone or was never there; the page says so, and tries again.
      onState(error instanceof StudioError && error.code === "locked");
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
  }
}
