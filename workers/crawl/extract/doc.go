// Package extract decides what a brand's record says, from what a crawl has gathered: name, descriptions,
// links, colors, fonts, company, restriction, quality. Each decision returns where its value came from,
// by which rule, and how sure that is. Nothing here fetches, and nothing depends on time or on the order
// of maps: the same page gives the same record.
//
// Colors, fonts and adult content have packages of their own within this one, which build on Input.
package extract
