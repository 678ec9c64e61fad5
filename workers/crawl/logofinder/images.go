package logofinder

import (
	"net/url"
	"slices"
	"strings"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Limits of the images of a page that are kept in addition to its share image.
const (
	maxImages = 4 // limits their number
	// minImageWidth and minImageSide are the minimum declared size in pixels;
	// minImageSide is also the minimum of the file's shorter side.
	minImageWidth = 600
	minImageSide  = 300
	// minRatio and maxRatio limit width to height; beyond that an image is a stripe.
	minRatio = 0.5
	maxRatio = 3.0
)

// signWords are words of an image's class, file or alt that mark it as an icon or a face, not a scene.
var signWords = tables.List("signWords")

// Images lists the images of a page that show the brand's activity, in the order of the page: large, of a usual aspect
// ratio, and neither logos nor foreign.
func Images(in extract.Input) []*url.URL {
	var out []*url.URL
	seen := map[string]bool{}
	for _, key := range []string{"og:image", "twitter:image"} {
		if u := in.Page.Resolve(in.Page.Meta(key)); u != nil {
			seen[imageKey(u)] = true // the banner
		}
	}
	for _, im := range in.Page.Images {
		u := scene(im)
		if u == nil || seen[imageKey(u)] {
			continue
		}
		seen[imageKey(u)] = true
		if out = append(out, u); len(out) == maxImages {
			break
		}
	}
	return out
}

// imageKey returns the same key for sizes of one image that differ in the query.
func imageKey(u *url.URL) string { return u.Host + u.Path }

// scene returns the best file of an element that shows a scene, or nil if it shows something else.
func scene(im page.Image) *url.URL {
	if im.Excluded || im.Hidden || im.Home || im.Zone == page.Footer || im.Zone == page.Nav || im.URL == nil {
		return nil
	}
	u, width, height := im.URL, im.Width, im.Height
	if im.Large.URL != nil && im.Large.Width > width {
		if width > 0 {
			height = height * im.Large.Width / width
		}
		u, width = im.Large.URL, im.Large.Width
	}
	words := slices.Concat(im.Own, page.SplitWords(fileName(im.URL)))
	switch {
	case u.Scheme == "data" || isVector(u) || strings.HasSuffix(strings.ToLower(u.Path), ".gif"):
	case width < minImageWidth, height > 0 && height < minImageSide:
	case height > 0 && (float64(width) < minRatio*float64(height) || float64(width) > maxRatio*float64(height)):
	case says(words), slices.ContainsFunc(words, func(w string) bool { return slices.Contains(signWords, w) }):
	default:
		return u
	}
	return nil
}

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
