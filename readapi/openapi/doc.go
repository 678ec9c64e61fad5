// Package openapi holds the description of the HTTP interface: openapi.yaml, which people write and read, and what
// is made of it. JSON is the document that the API serves; Read gives it as values, for the docs page and for tests
// that derive requests from it.
//
// The package openapitest checks answers against the document.
package openapi
