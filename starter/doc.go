// Package starter is the starter index: some thousands of companies with vector logos and brand colors,
// embedded in the binary, so that the first look-up works without a network.
//
// The data comes from two CC0 packages and is built by the program in generate, which decides whose a
// domain is and writes the drawings in the form that imaging.SanitizeSVG leaves as it is. Import loads it
// into a running service, once for each version of the data. A starter record is partial until a crawl
// confirms it: it has a name, logos and colors, and nothing is made up for the rest.
//
// The logos remain the trademarks of their owners; NOTICE says so, and where they come from.
package starter
