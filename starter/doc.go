// Package starter contains the starter index: a few thousand companies with vector logos and brand colors,
// embedded in the binary, so that the first lookup works without a network.
//
// Names, logos and colors come from two CC0 packages; descriptions, links and facts about companies, which
// only some records have, come from others. The program tools/starter assigns the brands to domains and
// writes the logos in a form that svg.Sanitize leaves unchanged. Import loads the data into a running
// service, once for each version. A starter record is partial until a crawl confirms it.
//
// The logos remain the trademarks of their owners; NOTICE says so and lists their sources.
package starter
