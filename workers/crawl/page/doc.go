// Package page collects the declarations and content of an HTML page about its owner: names, images, links, data. It
// does not judge them. Any bytes give a page, possibly an empty one, in bounded time and memory: the text is decoded
// from its actual encoding, and if the parser fails (beyond 512 open elements) a simple tree builder replaces it.
package page
