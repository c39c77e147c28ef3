export { END_SIGNALS } from "./signals.js";
export { yieldToEventLoop } from "./yield.js";
