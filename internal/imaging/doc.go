// Package imaging turns images that strangers made into images that are safe to serve, and says what
// is in them.
//
// Nothing is believed: what a file is, its first bytes say (Probe), never its name or media type, and its
// size is read from its header before memory is spent on it. Rasters are decoded within pixel limits,
// first frame only, into one form (*image.NRGBA at the origin), and encoded anew. An SVG is not cleaned
// but rebuilt: SanitizeSVG parses it and writes out only what an allow-list knows.
//
// The package bounds the work of one call. How many calls run at once is for the caller to bound: DecodeCost returns
// what one holds, from the header, and scaling uses every core.
package imaging
