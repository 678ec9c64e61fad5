package logofinder

import (
	"net/url"
	"strings"

	"letterhead/workers/crawl/site"
)

var builderIcons = tables.List("builderIcons") // the default icons of site builders and frameworks

// defaultIcon reports whether a URL names a default icon.
func defaultIcon(u *url.URL, of site.Site) bool {
	if u.Scheme == "data" {
		return false
	}
	text := u.Host + u.Path
	for _, b := range builderIcons {
		if strings.HasPrefix(b, "/") {
			stem, _, _ := strings.Cut(fileName(u), ".")
			if strings.Contains(u.Path, b) && !strings.Contains(of.Label, stem) {
				return true
			}
			continue
		}
		if host, _, _ := strings.Cut(b, "/"); strings.HasPrefix(text, b) && !of.OwnHost(host) {
			return true
		}
	}
	return false
}
