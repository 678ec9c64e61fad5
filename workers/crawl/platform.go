package crawl

import (
	"net/url"
	"slices"
	"strings"

	"letterhead/domain/brand"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("crawl")

// platforms are hosts, other than the networks, where many brands have one page each, with the platform's name and
// icon: link lists, maps, reviews, markets, payments. Platforms with a separate host for each brand are not listed.
var platforms = tables.List("platforms")

// onPlatform reports whether a home page is the brand's page on a network or another platform: its declarations are the
// platform's. A platform's own start page is the target of its other domains.
func (r *run) onPlatform(u *url.URL) bool {
	return strings.Trim(u.Path, "/") != "" && !r.site.Own(u) && isPlatform(u.Hostname()) && !isPlatform(r.target.Domain)
}

// leftForPlatform reports whether a platform answered for a file of the site: a
// domain that redirects every path to facebook.com also redirects its icon.
func (r *run) leftForPlatform(asked, final *url.URL) bool {
	return isPlatform(final.Hostname()) && !isPlatform(asked.Hostname()) && !isPlatform(r.target.Domain)
}

func isPlatform(host string) bool {
	host = strings.TrimPrefix(strings.ToLower(strings.TrimSuffix(host, ".")), "www.")
	return slices.Contains(platforms, host) || slices.Contains(platforms, strings.TrimPrefix(host, "m.")) ||
		brand.NetworkOf(host) != ""
}
