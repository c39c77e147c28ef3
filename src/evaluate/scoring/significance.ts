// When a difference is called significant. `findings/` asks, for comparisons, reports, the demo and the studio.

/** Probability, of a test after correction for several, below which a difference is called significant. */
export const SIGNIFICANCE_LEVEL = 0.05;

/** Whether a difference is significant; without a test it is not. @param pValue after correction for several comparisons */
export const isSignificant = (pValue: number | undefined): boolean =>
  pValue !== undefined && pValue < SIGNIFICANCE_LEVEL;
