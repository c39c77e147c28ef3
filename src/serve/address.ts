import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { isSystemError, usageError } from "../kit/index.js";
import { isLoopback } from "./http-guard.js";

export interface Address {
  /** Address to listen on. Default: `127.0.0.1`, which only this machine reaches. */
  readonly host?: string | undefined;
  /** Port to listen on; 0 takes a free one. Default: 8000. */
  readonly port?: number | undefined;
  /** Key that clients must send; needed where `host` is not a loopback address. Default: none. */
  readonly apiKey?: string | undefined;
}

const HOST = "127.0.0.1";
const PORT = 8000;

/** @returns the host that the server listens on */
export async function listen(server: Server, { host = HOST, port = PORT }: Address): Promise<string> {
  try {
    server.listen(port, host);
    await once(server, "listening");
    return host;
  } catch (error) {
    const refuse = (message: string, option: string) => usageError(message, { option }, error);
    if (isSystemError(error, "EADDRINUSE")) throw refuse(`Port ${port} is in use`, "port");
    if (isSystemError(error, "EACCES")) throw refuse(`Port ${port} is reserved; use one from 1024`, "port");
    if (isSystemError(error, "ERR_SOCKET_BAD_PORT"))
      throw refuse(`port is ${port}; it must be from 0 to 65535`, "port");
    if (isSystemError(error, "ENOTFOUND") || isSystemError(error, "EADDRNOTAVAIL")) {
      throw refuse(`${host} is not an address of this machine`, "host");
    }
    throw error;
  }
}

/**
 * Checks an address before models are loaded, which may take long.
 * @throws LayergraftError code `usage` if it cannot be listened on, or if other machines reach it and there is no key
 */
export async function requireAddress({ host = HOST, port, apiKey }: Address): Promise<void> {
  requireKey(host, apiKey);
  const probe = createServer();
  await listen(probe, { host, port });
  probe.close();
  await once(probe, "close");
}

export function requireKey(host = HOST, apiKey: string | undefined): void {
  if (isLoopback(host) || apiKey !== undefined) return;
  throw usageError(`${host} is reached from other machines, so the server needs an API key`, { option: "apiKey" });
}
