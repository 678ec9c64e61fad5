export * from "./client.js";
export { AnswerTooLargeError, ApiError, ConnectionError, type DetailsOf, type ErrorCode, type ErrorDetails, LetterheadError, TimeoutError } from "./errors.js";
export type { components, operations, paths } from "./schema.js";
