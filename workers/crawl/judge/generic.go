package judge

import (
	"regexp"
	"strings"
)

// genericNames are what pages are called that say nothing about their owner, folded.
var genericNames = set(
	"home", "homepage", "index", "welcome", "main", "mainpage", "website", "site", "untitled", "untitleddocument", "document", "page",
	"default", "start", "startseite", "accueil", "inicio", "home1", "login", "log in", "signin", "signup", "menu", "header", "logo",
	"blog", "news", "shop", "store", "app", "webapp", "myapp", "myapplication", "reactapp", "viteapp", "vitereact", "createreactapp", "nextapp", "nextjs", "nuxt", "vueapp", "angularapp",
	"error", "404", "404notfound", "notfound", "pagenotfound", "403forbidden", "forbidden", "accessdenied", "unauthorized", "503serviceunavailable",
	"justamoment", "onemoment", "attentionrequired", "areyouahuman", "pleasewait", "loading", "redirecting", "checkingyourbrowser",
	"comingsoon", "underconstruction", "maintenance", "wordpress", "mysite", "mywebsite", "mywordpressblog", "justanotherwordpresssite", "companyname", "yourcompany", "sitename",
	"mainnavigation", "navigation", "skiptocontent", "skiptomaincontent", "search", "contact", "about", "aboutus", "products", "services", "official", "officialsite", "officialwebsite",
	"главная", "首页", "ホーム", "홈",
)

// hostNames are providers whose name on a page is that of its host.
var hostNames = set(
	"wordpress", "wordpresscom", "wix", "wixcom", "squarespace", "shopify", "weebly", "godaddy", "webflow", "blogger", "tumblr",
	"netlify", "vercel", "herokuapp", "githubpages", "cloudflare", "namecheap", "bluehost", "hostinger", "ionos", "strato", "plesk", "cpanel",
)

var statusName = regexp.MustCompile(`^(4|5)\d\d\b|^error \d+`)

func set(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[folded(n)] = true
	}
	return out
}

// generic says whether a name is nobody's.
func generic(name string) bool {
	f := folded(name)
	return f == "" || genericNames[f] || statusName.MatchString(strings.ToLower(name))
}

// hostedName says whether a name is that of a site builder, on a site that is not its own.
func hostedName(name string, in Input) bool {
	return hostNames[folded(name)] && in.fits(name) < strongFit
}
