/** Signals that ask a process to end: Ctrl-C, a polite kill, and a terminal that is closed. */
export const END_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
