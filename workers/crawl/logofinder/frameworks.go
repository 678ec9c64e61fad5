package logofinder

import (
	"net/url"
	"strings"

	"letterhead/workers/crawl/site"
)

// frameworkFiles maps the SHA-256 of the icons and logos in the project templates of frameworks to the name of the
// framework. Source: the files in the npm packages create-vite 2.9.5, 5.2.3 and 9.3.0, cra-template 1.3.0,
// create-next-app 12.3.4, 14.2.5 and 16.4.3, @schematics/angular 12.2.0, 16.2.0 and 21.2.28, @vue/cli-service 5.0.9,
// create-vue 3.22.3, create-svelte 6.0.0, sv 0.17.1, create-docusaurus 3.10.2, startbootstrap-agency 7.0.12,
// html5-boilerplate 9.0.1, create-t3-app 7.40.0, create-redwood-app 8.9.0, material-kit 2.0.4, admin-lte 4.10.0.
var frameworkFiles = tables.Map("frameworkFiles")

// frameworkFile reports whether a file is a framework's default, and of which
// framework. On the framework's own site it is the logo.
func (p *Image) frameworkFile(sum string) (string, bool) {
	name, ok := frameworkFiles[sum]
	if !ok || strings.Contains(site.New(site.Registrable(p.URL.Hostname())).Label, name) {
		return "", false
	}
	return name, true
}

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
