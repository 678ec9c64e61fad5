// Package lookup implements the metered look-up, single and batch: it reserves a credit, finds the
// brand in the index or has its site crawled, and charges for a brand that was found with a logo.
// HTTP, MCP and any other entry point that sells a look-up run this code; it has no HTTP type in it.
//
// The steps of a look-up, in order, and the error of each:
//
//	credit         *account.InsufficientCreditsError: one credit is reserved first
//	index          the read model, then the brand's own stream
//	crawl limits   *LimitError, of the account or of the whole service
//	crawl          *CrawlError
//	charge         one durable event before the answer is sent
//
// Every reservation, hold and unit of a limit taken on the way is returned on every path that does not
// end in a charged answer, even if the caller has left or the code panics. A batch is a set of
// concurrent look-ups, each with its own credit.
package lookup
