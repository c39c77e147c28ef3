/** How advice sets a field: in a file, or as a flag of a command. */
export type SayField = (field: string, value: string) => string;

/** `Set dtype: float32` */
export const asField: SayField = (field, value) => `Set ${field}: ${value}`;
