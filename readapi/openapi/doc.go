// Package openapi holds the description of the HTTP API: openapi.yaml, the hand-written source, and
// its parsed forms. JSON is the document that the API serves; Read returns it as values, for the API
// reference and for tests that derive requests from it.
//
// The package openapitest checks responses against the document.
package openapi
