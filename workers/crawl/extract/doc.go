// Package extract decides the fields of a brand's record from the data that a crawl has gathered: name, descriptions,
// links, colors, fonts, company, restriction, quality. Each decision includes the source of its value, the rule that
// applied, and a confidence. The package does not fetch, and does not depend on time or on the order of maps: the same
// page gives the same record.
//
// Colors, fonts and adult content have their own packages within this one, which build on Input.
package extract
