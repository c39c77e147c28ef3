// Servers of several makes with the toy model behind them, on this machine, with the problems that real ones have.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import * as toy from "./toy-model.js";

export type Body = Record<string, unknown>;

export interface FakeRequest {
  readonly path: string;
  readonly body: Body;
  readonly headers: IncomingMessage["headers"];
}

/** JSON, or a status with JSON and headers, or "hang": no answer; "drop": the connection is cut. */
export type FakeReply = Body | { status: number; json?: unknown; headers?: Record<string, string> } | "hang" | "drop";

export interface FakeServer {
  readonly url: string;
  /** Requests in the order of their coming. */
  readonly requests: FakeRequest[];
  /** Requests answered at once, at most; connections in all. */
  readonly most: { atOnce: number; connections: number };
  asked(path: string): Body[];
  close(): Promise<void>;
}

/** Starts a server on a free port. @param delay milliseconds that every answer takes */
export async function fakeServer(
  answer: (request: FakeRequest, count: number) => FakeReply,
  delay = 0,
): Promise<FakeServer> {
  const requests: FakeRequest[] = [];
  const most = { atOnce: 0, connections: 0 };
  let running = 0;
  const server = createServer((incoming, response) => {
    let text = "";
    incoming.on("data", (chunk) => {
      text += chunk;
    });
    incoming.on("end", () => {
      const request = {
        path: incoming.url ?? "",
        body: text === "" ? {} : (JSON.parse(text) as Body),
        headers: incoming.headers,
      };
      requests.push(request);
      most.atOnce = Math.max(most.atOnce, ++running);
      setTimeout(() => {
        running--;
        reply(response, answer(request, requests.length));
      }, delay);
    });
  });
  server.on("connection", () => most.connections++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    most,
    asked: (path) => requests.filter((request) => request.path === path).map(({ body }) => body),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function reply(response: ServerResponse, answer: FakeReply): void {
  if (answer === "hang") return;
  if (answer === "drop") return void response.destroy();
  const { status, json, headers } = (typeof answer.status === "number" ? answer : { status: 200, json: answer }) as {
    status: number;
    json?: unknown;
    headers?: Record<string, string>;
  };
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(typeof json === "string" ? json : JSON.stringify(json ?? {}));
}

const NOT_FOUND = { status: 404, json: { detail: "Not Found" } };

export interface CompletionsOptions {
  readonly owner?: string;
  readonly models?: readonly string[];
  /** Whether there is /tokenize, and prompts may be token ids. */
  readonly ids?: boolean;
  /** full: as vLLM; generated: log-probabilities of the generated token alone; refused: 400. */
  readonly echo?: "full" | "generated" | "refused";
  readonly mostLogprobs?: number;
  readonly contextLength?: number;
  /** Whether a prompt that is too long is cut, instead of refused. */
  readonly cuts?: boolean;
}

/** As vLLM and its like answer. */
export function completions(options: CompletionsOptions = {}): (request: FakeRequest) => FakeReply {
  const { owner = "vllm", models = ["toy"], ids = true, echo = "full", mostLogprobs = 20 } = options;
  const { contextLength = 4096, cuts = false } = options;
  return ({ path, body }) => {
    if (path === "/v1/models") return { data: models.map((id) => ({ id, owned_by: owner })) };
    if (path === "/version" && owner === "vllm") return { version: "0.0.1" };
    if (path === "/tokenize" && ids) {
      return { tokens: toy.encode(String(body.prompt), body.add_special_tokens === true) };
    }
    if (path !== "/v1/completions") return NOT_FOUND;
    const asIds = Array.isArray(body.prompt);
    if (asIds && !ids) return { status: 400, json: { error: { message: "prompt must be a string" } } };
    // As vLLM does with text: BOS is put before it unless it is told not to.
    let prompt = asIds ? (body.prompt as number[]) : toy.encode(String(body.prompt), body.add_special_tokens !== false);
    const limit = Number(body.max_tokens);
    if (prompt.length + limit > contextLength) {
      const message = `This model's maximum context length is ${contextLength} tokens.`;
      if (!cuts) return { status: 400, json: { error: { message } } };
      prompt = prompt.slice(-(contextLength - limit));
    }
    const wanted = Number(body.logprobs ?? 0);
    if (wanted > mostLogprobs) return { status: 400, json: { error: { message: `at most ${mostLogprobs} logprobs` } } };
    if (body.echo === true && echo === "refused") {
      return { status: 400, json: { error: { message: "echo is not supported" } } };
    }
    const stop = (body.stop ?? []) as string[];
    const { ids: made, text, finish, ended } = toy.generate(prompt, limit, stop);
    // The end token counts as generated.
    const generated = ended ? [...made, toy.END] : made;
    const shown = body.echo === true && echo === "full" ? [...prompt, ...generated] : generated;
    const before = body.echo === true && echo === "full" ? [] : prompt;
    const name = (id: number) => (body.return_tokens_as_token_ids ? `token_id:${id}` : (toy.VOCABULARY[id] ?? ""));
    const tops = shown.map((id, i) => {
      const previous = i === 0 ? before.at(-1) : shown[i - 1];
      if (previous === undefined) return null;
      const own = { id, logprob: toy.nextLogprobs(previous)[id] ?? 0 };
      return Object.fromEntries([...toy.topNext(previous, wanted), own].map((one) => [name(one.id), one.logprob]));
    });
    const promptText = asIds ? toy.decode(prompt) : String(body.prompt);
    return {
      choices: [
        {
          text: body.echo === true ? promptText + text : text,
          finish_reason: finish,
          logprobs:
            body.logprobs === undefined
              ? null
              : owner === "llamacpp"
                ? {
                    content: shown.map((id, i) => ({
                      token: name(id),
                      top_logprobs: Object.entries(tops[i] ?? {}).map(([token, logprob]) => ({ token, logprob })),
                    })),
                  }
                : {
                    tokens: shown.map(name),
                    token_logprobs: shown.map((id, i) => tops[i]?.[name(id)] ?? null),
                    top_logprobs: tops,
                  },
        },
      ],
      usage: { prompt_tokens: prompt.length, completion_tokens: generated.length },
    };
  };
}
