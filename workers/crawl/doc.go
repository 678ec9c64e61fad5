// Package crawl turns a domain into a brand's record.
//
// A Crawler does the work, in stages that can be read one after the other:
//
//   - fetch (fetch.go) gets the home page and tells, with package classify, what kind of answer it is; the
//     rules of robots.txt (rules.go) and the domain's BIMI record (bimi.go) are asked for beside it;
//   - gather (gather.go) fetches what the page points at: manifest and stylesheets (sheets.go), candidates
//     for logos, another page of the site where something is missing (second.go), images; a few at a time
//     (fanout.go), within a share of the budget (files.go), the most important first;
//   - extract (package extract) decides field by field;
//   - assemble (assemble.go) stores the images and builds the record with its evidence; explain.go and the
//     trials say why, for those who ask.
//
// Its ends are a Result, a *Failure with one of the outcomes that the brand's stream knows, or a *StoreError
// when the fault is ours.
//
// A Worker takes crawl requests from the broker and runs them through a Crawler in two pools, so that
// live work never waits behind bulk. Once crawls one URL, or reads one saved page, for the command line.
package crawl
