/** Most threads: far above any useful number, as each has its own stack from the start. */
export const MAX_THREADS = 256;
