// Package readapi implements Letterhead's HTTP API: brand look-ups, search, the account, stored
// assets, and the pages that explain errors and the crawler.
//
// A request passes these steps, and the first that rejects it answers:
//
//	router         404, 405 and the cleaning redirect, before any authentication
//	authentication 401
//	authorization  403: suspended account, then kind of key
//	minute window  429; every authenticated request takes a unit, even a rejected one
//	parameters     400
//	search quota   429, on search only
//	credit         402: one credit is reserved before the look-up
//	index          the read model, then the brand's own stream
//	crawl limits   429 of the account, 503 of the whole service
//	crawl          404, 422, 502, 504
//
// The MCP endpoint (agents.go) has its own order, described in package mcp, and uses the same look-up and search.
//
// The look-up itself, single and batch, is package lookup, which is independent of HTTP.
//
// errors.go is the one table between errors of other parts and answers of this API.
package readapi
