// Names of the demo's plan that its results are found by, and what the demo calls them.

export const NAMES = { swap: "layer swap", math: "math", language: "swahili" } as const;
export const EXPERTS = { task: "math expert", language: "Swahili expert" } as const;
export const TASKS = { sw: "problems_sw.yaml", en: "problems_en.yaml" } as const;
