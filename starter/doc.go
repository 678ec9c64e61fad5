// Package starter is the starter index: a few thousand companies with vector logos and brand colors,
// embedded in the binary, so that the first lookup works without a network.
//
// The data comes from two CC0 packages and is built by the program in generate, which decides who owns
// a domain and writes the drawings in the form that svg.Sanitize leaves unchanged. Import loads
// it into a running service, once for each version of the data. A starter record is partial until a
// crawl confirms it: it has a name, logos and colors, and the rest is left empty.
//
// The logos remain the trademarks of their owners; NOTICE says so and lists their sources.
package starter
