export { RepositoryCache } from "./cache.js";
export { isHubName, openRepository } from "./repository.js";
export { type Environment, type HubSettings, hubSettings } from "./settings.js";
export { checkUploadAccess, type UploadFile, type UploadResult, uploadFiles } from "./upload.js";
