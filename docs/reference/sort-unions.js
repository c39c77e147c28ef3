// A TypeDoc plugin: sorts unions of literals, whose order otherwise depends on unrelated code.
import { Converter, LiteralType, makeRecursiveVisitor } from "typedoc";

const visitor = makeRecursiveVisitor({
  union(type) {
    if (type.types.every((one) => one instanceof LiteralType)) {
      type.types.sort((a, b) => String(a).localeCompare(String(b), "en", { numeric: true }));
    }
  },
});

/** @param {import("typedoc").Application} app */
export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_END, ({ project }) => {
    for (const reflection of Object.values(project.reflections)) {
      if ("type" in reflection) /** @type {import("typedoc").SomeType} */ (reflection.type)?.visit(visitor);
    }
  });
}
