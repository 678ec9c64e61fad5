// Package readapi answers Letterhead's HTTP API: brand look-ups, search, the account, stored assets, and
// the pages that explain errors and the crawler.
//
// A request passes these stations, and the first that refuses it answers:
//
//	router         404, 405 and the cleaning redirect, before anybody is asked who they are
//	authentication 401
//	authorization  403: suspended account, then kind of key
//	minute window  429; every authenticated request takes a unit, a refused one too
//	parameters     400
//	search quota   429, on search only
//	credit         402: one credit is reserved before anything is looked for
//	index          the read model, then the brand's own stream
//	crawl limits   429 of the account, 503 of the whole service
//	crawl          404, 422, 502, 504
//
// The MCP endpoint (agents.go) has an order of its own, which package mcp tells, and leads to the same look-up and
// search.
//
// Lookup is the metered use case itself, free of HTTP, so that every door that sells a look-up goes
// through the same code. Its rule: whatever was reserved, held or taken on the way is handed back on every
// path that does not end in a charged answer, also when the caller has gone or the handler panics. A batch is
// such look-ups side by side (Lookup.Batch), each with a credit of its own.
//
// errors.go is the one table between errors of other parts and answers of this API.
package readapi
