// Package css reads the style sheets of a page with the engine of internal/css, and their addresses by the rules of the
// crawler.
package css

import (
	"net/url"

	"golang.org/x/net/html"

	"letterhead/internal/css"
	"letterhead/workers/crawl/site"
)

// Cascade evaluates the style sheets of a page.
type Cascade = css.Cascade

// New reads the style sheets of a document; see css.New.
func New(root *html.Node, base *url.URL, sheets map[string][]byte) *Cascade {
	return css.New(root, base, sheets, resolve)
}

// Imports lists the URLs of the sheets that a sheet imports; see css.Imports.
func Imports(sheet []byte, at *url.URL) []*url.URL { return css.Imports(sheet, at, resolve) }

// resolve makes a URL absolute. It returns nil if the scheme is not http or https.
func resolve(base *url.URL, ref string) *url.URL { return site.Absolute(base, site.Reference(ref)) }
