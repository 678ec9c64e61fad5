// Package crawl turns a domain into a brand's record.
//
// A Crawler does the work, in stages:
//
//   - fetch (fetch.go) gets the home page and classifies the response with package classify; the
//     rules of robots.txt (rules.go) and the domain's BIMI record (bimi.go) are requested concurrently;
//   - gather (gather.go) fetches the files that the page refers to: manifest and stylesheets (sheets.go),
//     candidates for logos, another page of the site for missing fields (second.go), images; a few at a time
//     (fanout.go), within a share of the budget (files.go), the most important first;
//   - extract (package extract) decides field by field, by words and patterns from the files of package table;
//   - assemble (assemble.go) stores the images and builds the record with its evidence; Weighed and
//     Trials of the result explain the decisions.
//
// A crawl ends with a Result, a *Failure with one of the outcomes of the
// brand's stream, or a *StoreError if the asset store failed.
//
// A Worker takes crawl requests from the broker and runs them through a Crawler in two pools, so that live work never
// waits behind bulk. Once crawls one URL, or reads one saved page, for the command line.
package crawl
