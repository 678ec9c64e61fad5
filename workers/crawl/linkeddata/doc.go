// Package linkeddata reads the JSON-LD of a page, as sloppily as pages write it: arrays, @graph, types
// as list, values as string, object or reference, comments, trailing commas, escaped twice. It is
// bounded in bytes, depth and objects, and never fails: what cannot be read is left out.
package linkeddata
