// Package logo draws the logo of a brand according to a request: which of its logos, how large, in
// which format, or a fallback if there is none.
//
// Parse parses the request from path, query and Accept headers. Choose selects the stored file to draw from. A Renderer
// draws and caches images. The package does not deal with keys, limits or HTTP responses, which are in package readapi.
package logo
