// How many threads, or cores, anybody may ask for.

/** Far above any machine that gains by it; each thread has a stack of its own from the moment it begins. */
export const MOST_THREADS = 256;
