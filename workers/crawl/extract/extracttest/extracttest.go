// Package extracttest creates input for the tests of extract and its subpackages.
package extracttest

import (
	"net/url"

	"letterhead/internal/css"
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

// Styled parses a page with style elements, and a stylesheet that it links as /a.css.
func Styled(body, sheet string) extract.Input {
	in := Read("acme.com", body)
	in.Style = css.New(in.Page.Root, in.Page.Base, map[string][]byte{in.Page.Base.JoinPath("/a.css").String(): []byte(sheet)}, site.Resolve)
	return in
}

// Organization returns linked data of an organization with these JSON fields.
func Organization(fields string) string {
	return `<script type="application/ld+json">{"@context":"https://schema.org","@type":"Organization",` + fields + `}</script>`
}
