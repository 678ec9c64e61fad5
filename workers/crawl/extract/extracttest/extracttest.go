// Package extracttest makes input for the tests of extract and the packages in it.
package extracttest

import (
	"net/url"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Read parses the HTML of a domain's home page.
func Read(domain, body string) extract.Input {
	at, _ := url.Parse("https://www." + domain + "/")
	of := site.New(domain)
	return extract.Input{Site: of, Page: page.Parse([]byte(body), "text/html", at, of)}
}
