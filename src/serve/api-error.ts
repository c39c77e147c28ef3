import { isAnySystemError, LayergraftError, systemMessage } from "../kit/index.js";

/** An error that a client is told. */
export class ApiError extends LayergraftError {
  readonly status: number;
  readonly body: { readonly error: Readonly<Record<"message" | "type" | "param" | "code", string | null>> };
  readonly headers: Readonly<Record<string, string>>;

  /**
   * @param param field of the request with the problem
   * @param code of OpenAI where it has one for this
   */
  constructor(
    status: number,
    message: string,
    {
      param = null,
      code = null,
      headers = {},
    }: {
      readonly param?: string | null;
      readonly code?: string | null;
      readonly headers?: Readonly<Record<string, string>>;
    } = {},
  ) {
    super("api", message);
    this.status = status;
    this.headers = headers;
    const type = status === 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error";
    this.body = { error: { message, type, param, code } };
  }
}

/** Refuses a request. @param param the field with the problem */
export function badRequest(message: string, param: string | null = null, code: string | null = null): ApiError {
  return new ApiError(400, message, { param, code });
}

/** Codes of errors that come from what the client sent: a prompt, messages. */
const CLIENT_CODES = ["usage", "template"];

/** The error to tell a client, of any other one. */
export function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof LayergraftError) {
    const own = error.code === "memory" ? 503 : 500;
    return new ApiError(CLIENT_CODES.includes(error.code) ? 400 : own, error.message);
  }
  return new ApiError(500, isAnySystemError(error) ? systemMessage(error) : "The server has a bug; see its log.");
}
