// Package openapitest checks answers of the API against its interface description, with two validators that know
// nothing of each other (kin-openapi and libopenapi-validator) and by hand where they have gaps:
//
//   - kin-openapi checks nothing of an answer to HEAD and nothing of a 304 or 301; libopenapi-validator compares a
//     header's value with its schema only when it is a string, and neither says anything about headers that the document
//     does not name. So headers are checked here.
//   - libopenapi-validator looks only at bodies whose type says JSON.
//   - Both match paths their own way, and an escaped slash in a segment is where they differ. The path is matched
//     here, and they are handed the operation.
package openapitest
