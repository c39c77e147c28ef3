// What clients may take, so that one of them cannot harm the others.

/** Limits on what clients take; tests shorten them. */
export interface ServerLimits {
  /** Bytes of a body. Default: 4 MiB. */
  readonly bodyBytes: number;
  /** Seconds to send the headers of a request. Default: 10. */
  readonly headerSeconds: number;
  /** Seconds to send a whole request. Default: 60. */
  readonly bodySeconds: number;
  /** Seconds without reading while there is something to read. Default: 30. */
  readonly stallSeconds: number;
  /** Bytes of a reply that wait to be read. Default: 4 MiB. */
  readonly unreadBytes: number;
  /** Connections at a time. Default: 1024. */
  readonly connections: number;
}

export const LIMITS: ServerLimits = {
  bodyBytes: 2 ** 22,
  headerSeconds: 10,
  bodySeconds: 60,
  stallSeconds: 30,
  unreadBytes: 2 ** 22,
  connections: 1024,
};
