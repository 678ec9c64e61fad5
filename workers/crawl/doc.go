// Package crawl turns a domain into a brand's record.
//
// A Crawler does the work, in stages that can be read one after the other: fetch (fetch.go) gets the home
// page and tells what kind of answer it is; gather (gather.go) fetches what the page points at; judge
// (package judge) decides field by field; assemble (assemble.go) stores the pictures and builds the
// record with its evidence. Its ends are a Result or a *Failure with one of the outcomes that the brand's
// stream knows.
//
// A Worker takes crawl requests from the broker and runs them through a Crawler in two pools, so that
// live work never waits behind bulk. Once crawls one URL, or reads one saved page, for the command line.
package crawl
