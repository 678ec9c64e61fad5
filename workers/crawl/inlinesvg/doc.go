// Package inlinesvg makes files of the vectors that stand in a page's own HTML.
//
// An svg element there is no file yet: its shapes may stand elsewhere in the document or in a sprite, its
// colors in stylesheets, its size in an attribute of no viewBox. Resolve brings all that together; Cut takes
// one symbol out of a sprite. Both give SVG that stands on its own and is still to be sanitized: package
// imaging does that. Both are bounded in elements, depth, expansions and bytes.
package inlinesvg
