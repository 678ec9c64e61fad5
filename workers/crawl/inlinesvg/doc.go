// Package inlinesvg converts the vectors in a page's own HTML to files.
//
// An svg element alone is not a complete file: its shapes may be elsewhere in the document or in a sprite, its colors
// in stylesheets, its size in an attribute instead of a viewBox. Resolve combines these parts; Cut extracts one symbol
// from a sprite. Both return self-contained SVG that still has to be sanitized by package imaging. Both are bounded in
// elements, depth, expansions and bytes.
package inlinesvg
