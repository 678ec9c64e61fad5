// Package linkeddata parses the JSON-LD of a page and tolerates the usual mistakes: arrays, @graph, types as list,
// values as string, object or reference, comments, trailing commas, escaped twice. It is bounded in bytes, depth and
// objects, and never fails: invalid parts are omitted.
package linkeddata
