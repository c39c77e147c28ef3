// The functions of the Python module, from the schemas of the verbs.

/** @returns {Promise<Record<string, string>>} files by their paths in the wheel */
export async function pythonModule() {
  return {};
}
