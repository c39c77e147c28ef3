// The door of settings/: what other rooms use.
export { recordOf } from "./record-schema.js";
export {
  type Checked,
  type Fault,
  faultsOfIssues,
  formatFault,
  formatPath,
  lineOfField,
  openSettings,
  parseSettings,
  readSettingsText,
  type SettingsText,
  withHint,
} from "./settings-file.js";
