// The environment variables of huggingface_hub, as in huggingface_hub 1.33 (constants.py, utils/_auth.py).

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { HubError, isSystemError } from "../../kit/index.js";

export interface HubSettings {
  /** Without a trailing slash. */
  readonly endpoint: string;
  readonly token: string | undefined;
  /** Whether only the cache may be used. */
  readonly offline: boolean;
  readonly cache: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads HF_ENDPOINT, HF_TOKEN (or HUGGING_FACE_HUB_TOKEN, or the file that `hf auth login` writes), HF_HUB_OFFLINE,
 * HF_HUB_CACHE, HF_HOME and XDG_CACHE_HOME.
 * @throws HubError if the endpoint is not an address, or the token has characters that no token has
 */
export async function hubSettings(environment: Environment = process.env): Promise<HubSettings> {
  const variable = (name: string) => environment[name]?.trim() || undefined;
  const home = expandHome(
    variable("HF_HOME") ?? join(variable("XDG_CACHE_HOME") ?? join(homedir(), ".cache"), "huggingface"),
  );
  const cache = variable("HF_HUB_CACHE") ?? variable("HUGGINGFACE_HUB_CACHE") ?? join(home, "hub");
  const token = variable("HF_TOKEN") ?? variable("HUGGING_FACE_HUB_TOKEN");
  const usesStoredToken = !isTrue(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"));
  return {
    endpoint: checkedEndpoint(variable("HF_ENDPOINT") ?? "https://huggingface.co"),
    token: checkedToken(
      token ?? (usesStoredToken ? await storedToken(variable("HF_TOKEN_PATH") ?? join(home, "token")) : undefined),
    ),
    offline: isTrue(variable("HF_HUB_OFFLINE") ?? variable("TRANSFORMERS_OFFLINE")),
    cache: expandHome(cache),
  };
}

// Neither the address nor the token is part of the message: both may hold a secret.
function checkedEndpoint(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new HubError("HF_ENDPOINT is not an address such as https://huggingface.co. Correct or unset it.");
  }
  if (url.username !== "" || url.password !== "") {
    throw new HubError("HF_ENDPOINT has a user or password in it. Remove it, and pass a token in HF_TOKEN.");
  }
  return text.replace(/\/+$/, "");
}

function checkedToken(token: string | undefined): string | undefined {
  if (token === undefined || /^[\x21-\x7e]+$/.test(token)) return token;
  throw new HubError(
    "The Hugging Face token has a space, a line break or another character that no token has. Set HF_TOKEN again, or run hf auth login.",
  );
}

function isTrue(value: string | undefined): boolean {
  return ["1", "ON", "YES", "TRUE"].includes(value?.toUpperCase() ?? "");
}

function expandHome(path: string): string {
  return path === "~" || path.startsWith("~/") ? join(homedir(), path.slice(1)) : path;
}

async function storedToken(file: string): Promise<string | undefined> {
  try {
    return (await readFile(expandHome(file), "utf8")).trim() || undefined;
  } catch (error) {
    if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR") || isSystemError(error, "EACCES")) {
      return undefined;
    }
    throw error;
  }
}
