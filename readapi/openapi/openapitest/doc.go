// Package openapitest checks answers of the API against its interface description, with two validators that know
// nothing of each other (kin-openapi and libopenapi-validator) and by hand where they have gaps:
//
//   - kin-openapi checks nothing of an answer to HEAD, and nothing of a 301, 304, 307 or 308. libopenapi-validator compares
//     a header with its schema only where the header is required, and reads the value as JSON first. As they are used
//     here, neither says anything about headers that the document does not name. So headers are checked by hand too.
//   - libopenapi-validator looks only at bodies whose type says JSON.
//   - Both match paths their own way, and an escaped slash in a segment is where they differ. The path is matched
//     here, and they are handed the operation.
package openapitest
