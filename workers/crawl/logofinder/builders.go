package logofinder

import (
	"net/url"
	"strings"

	"letterhead/workers/crawl/site"
)

// builderIcons are the default icons of site builders and frameworks.
var builderIcons = []string{
	"static.parastorage.com/client/pfavico.ico", "www.wix.com/favicon.ico", "static.wixstatic.com/media/wix", "assets.squarespace.com/universal/default-favicon.ico",
	"cdn.shopify.com/shopifycloud/", "s.w.org/favicon.ico", "s.w.org/images/wmark.png", "s0.wp.com/i/", "s1.wp.com/i/", "s2.wp.com/i/", "wordpress.com/i/", "s.wordpress.com/i/", "/wp-includes/images/w-logo",
	"assets-global.website-files.com/img/favicon.ico", "assets-global.website-files.com/img/webclip.png", "uploads-ssl.webflow.com/img/favicon.ico", "uploads-ssl.webflow.com/img/webclip.png",
	"cdn.prod.website-files.com/img/favicon.ico", "cdn.prod.website-files.com/img/webclip.png", "cdn2.editmysite.com/images/", "www.weebly.com/favicon.ico", "www.blogger.com/favicon.ico", "www.blogger.com/img/", "www.gstatic.com/images/branding/product/",
	"ssl.gstatic.com/atari/images/public/favicon.ico", "sites.google.com/favicon.ico", "img1.wsimg.com/isteam/ip/static/pwa-app/", "framerusercontent.com/sites/icons/default-", "ghost.org/images/logos/", "github.githubassets.com/favicons/", "pages.github.com/favicon.ico",
	"www.jimdo.com/favicon.ico", "assets.jimstatic.com/", "static.tildacdn.com/img/tildafavicon.ico", "tilda.ws/img/tildafavicon.ico", "static.canva.com/", "cdn.durable.co/favicon", "substackcdn.com/icons/substack/",
	"assets.tumblr.com/images/favicons/", "assets.tumblr.com/images/default_", "www.blogger.com/", "resources.blogblog.com/", "cdn.jsdelivr.net/gh/hexojs/",
	"/images/favicon-32x32-next.png", "/images/favicon-16x16-next.png", "/images/apple-touch-icon-next.png", "/typo3/sysext/", "/e107_images/", "/wp-admin/images/", "/img/docusaurus.", "/core/themes/olivero/", "/themes/bartik/", "/static/frontend/Magento/luma/", "/static/frontend/Magento/blank/",
	"/vite.svg", "/next.svg", "/vercel.svg", "/react.svg", "/nuxt.svg", "/gatsby-icon.png", "/core/misc/favicon.ico", "/misc/favicon.ico", "/media/system/images/favicon.ico", "/administrator/templates/", "/templates/cassiopeia/images/logo.svg",
	"/templates/protostar/favicon.ico", "/media/templates/site/cassiopeia/images/", "/typo3conf/ext/introduction/", "/static/admin/img/",
}

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
