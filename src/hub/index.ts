export { RepositoryCache } from "./cache.js";
export type { HubFile } from "./contents.js";
export { HubError } from "./hub-error.js";
export { commitOnHub, isHubName, openRepository, type Repository, type RepositoryOptions } from "./repository.js";
export { type Environment, type HubSettings, hubSettings } from "./settings.js";
export { checkUploadAccess, type UploadFile, type UploadResult, uploadFiles } from "./upload.js";
