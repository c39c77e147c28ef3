export {
  type Checked,
  checkSchema,
  choiceProblem,
  formatPath,
  formatProblem,
  type Problem,
  parseInWords,
  recordOf,
} from "./check-schema.js";
export { frontMatterOf, frontMatterText } from "./front-matter.js";
export { namedField } from "./named-fields.js";
export {
  type AsWritten,
  type JsonSchema,
  jsonSchemaOf,
  type SchemaField,
  schemaFields,
  writtenAs,
} from "./schema-fields.js";
export {
  checkSettings,
  type LocatedSettings,
  loadYaml,
  pathOf,
  readSettings,
  readSettingsText,
  type SettingsKind,
} from "./settings-file.js";
export { publishedSchema, shareDefinitions } from "./shared-definitions.js";
export { fillTemplate, parseTemplate, scalarText, type TemplatePart, templateSchema, valueAt } from "./template.js";
export { checkedIn, openSettings, parseSettings, yamlText } from "./yaml.js";
