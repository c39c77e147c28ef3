export { NO_PART } from "../checkpoint/checkpoint.js";
export { type Alignment, alignVocabularies, isWithin, openVocabulary, type VocabularyChoice } from "./alignment.js";
export { areForeign, compareVocabularies, type Labelled, type Purpose, requireCompatible } from "./compatibility.js";
export { moveTokenIds, translateIds } from "./token-ids.js";
export { type AddedToken, BYTE_OF, textFoldersOf, type Vocabulary } from "./vocabulary.js";
