// Package openapitest checks responses of the API against its description. kin-openapi checks the
// bodies. It skips responses to HEAD and the statuses 301, 304, 307 and 308, and does not report headers
// that the document lacks, so this package checks statuses, headers and media types itself. It also
// matches the path, because an escaped slash in a segment belongs to the segment here.
package openapitest
