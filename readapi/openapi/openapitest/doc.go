// Package openapitest checks responses of the API against its description, with two independent
// validators (kin-openapi and libopenapi-validator) and additional checks where they have gaps:
//
//   - kin-openapi does not check responses to HEAD, nor a 301, 304, 307 or 308. libopenapi-validator compares
//     a header with its schema only if the header is required, and parses the value as JSON first. As used
//     here, neither reports headers that are missing in the document. So this package checks headers, too.
//   - libopenapi-validator checks only bodies with a JSON media type.
//   - Both match paths in different ways, and differ for an escaped slash in a segment. This package matches
//     the path and passes the operation to them.
package openapitest
