// Package svg rebuilds untrusted SVG files.
//
// A file is not cleaned: Sanitize parses it and writes only the elements, attributes and styles in an
// allow-list. What viewers support differently is replaced: style sheets by the values of their elements,
// SVGs in images by their content, text by outlines. Limits on size, nesting and repetition keep the work for
// this package, and for a renderer afterwards, within bounds. Package resvg draws the result.
package svg
