// Package starter contains the starter index: a few thousand companies with vector logos and brand colors,
// embedded in the binary, so that the first lookup works without a network.
//
// The data comes from two CC0 packages. The program tools/starter assigns the brands to domains and
// writes the logos in a form that svg.Sanitize leaves unchanged. Import loads the data into a running
// service, once for each version. A starter record is partial until a crawl confirms it: it has only a
// name, logos and colors.
//
// The logos remain the trademarks of their owners; NOTICE says so and lists their sources.
package starter
