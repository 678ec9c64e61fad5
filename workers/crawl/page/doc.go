// Package page gathers what an HTML page says about its owner: declared names, images, links, data.
// It judges nothing. Any bytes give a page, perhaps an empty one, in bounded time and memory: the text
// is decoded from whatever encoding it is really in, and where the parser refuses (it does so past 512
// open elements) a plain tree builder takes its place.
package page
