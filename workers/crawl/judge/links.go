package judge

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/page"
)

// network is one place where brands have profiles.
type network struct {
	name  string
	hosts []string // registrable hosts; subdomains count
	// profile reads the path of a profile and returns its canonical URL, "" when the path is none.
	profile func(host string, path []string) string
}

var handle = regexp.MustCompile(`^@?[\p{L}\p{N}_.\-]{1,100}$`)

// at builds the profile function of networks whose profiles stand at https://host/handle.
func at(host, prefix string, reserved ...string) func(string, []string) string {
	return func(_ string, path []string) string {
		if len(path) == 0 || !handle.MatchString(path[0]) || slices.Contains(reserved, strings.ToLower(path[0])) {
			return ""
		}
		return "https://" + host + "/" + prefix + strings.TrimPrefix(path[0], prefix)
	}
}

// slashed is at, for networks that end their profiles' addresses with a slash.
func slashed(host, prefix string, reserved ...string) func(string, []string) string {
	plain := at(host, prefix, reserved...)
	return func(host string, path []string) string {
		if u := plain(host, path); u != "" {
			return u + "/"
		}
		return ""
	}
}

// networks in the order of the specification.
var networks = []network{
	{"twitter", []string{"twitter.com", "x.com"}, at("x.com", "", "intent", "share", "home", "search", "hashtag", "i", "login", "signup", "explore", "settings", "privacy", "tos", "about", "widgets", "status", "download", "messages", "oauth", "compose", "account", "jobs", "en", "de", "fr")},
	{"linkedin", []string{"linkedin.com", "lnkd.in"}, linkedin},
	{"github", []string{"github.com"}, at("github.com", "", "features", "pricing", "about", "login", "join", "site", "security", "enterprise", "topics", "collections", "trending", "sponsors", "orgs", "apps", "marketplace", "explore", "customer-stories", "readme", "contact", "search", "events", "solutions", "resources", "signup", "team", "nonprofit", "new", "settings", "notifications", "account", "mobile", "copilot", "github-copilot", "why-github", "premium-support", "edu", "git-guides")},
	{"instagram", []string{"instagram.com", "instagr.am"}, slashed("www.instagram.com", "", "p", "reel", "reels", "explore", "accounts", "stories", "tv", "about", "developer", "legal", "direct", "web", "directory")},
	{"facebook", []string{"facebook.com", "fb.com", "fb.me"}, facebook},
	{"youtube", []string{"youtube.com", "youtu.be"}, youtube},
	{"tiktok", []string{"tiktok.com"}, tiktok},
	{"crunchbase", []string{"crunchbase.com"}, below("www.crunchbase.com", "organization", "company")},
	{"discord", []string{"discord.gg", "discord.com", "discordapp.com"}, discord},
	{"pinterest", []string{"pinterest.com", "pin.it"}, at("www.pinterest.com", "", "pin", "search", "ideas", "about", "business", "login", "explore", "categories", "today", "settings", "_tools", "discover", "js")},
	{"threads", []string{"threads.net", "threads.com"}, threads},
	{"bluesky", []string{"bsky.app"}, below("bsky.app", "profile")},
	{"medium", []string{"medium.com"}, medium},
	{"wikipedia", []string{"wikipedia.org"}, wikipedia},
}

// pinterestHost recognises the country forms of pinterest, such as pinterest.de and pinterest.co.uk.
var pinterestHost = regexp.MustCompile(`^([a-z]{2,3}\.)?pinterest\.(com|[a-z]{2}|com?\.[a-z]{2})$`)

// below builds the profile function of networks whose profiles stand at https://host/section/handle.
func below(host string, sections ...string) func(string, []string) string {
	return func(_ string, path []string) string {
		if len(path) < 2 || !slices.Contains(sections, strings.ToLower(path[0])) || !handle.MatchString(path[1]) {
			return ""
		}
		return "https://" + host + "/" + sections[0] + "/" + path[1]
	}
}

func linkedin(_ string, path []string) string {
	if len(path) < 2 || !handle.MatchString(path[1]) {
		return ""
	}
	switch section := strings.ToLower(path[0]); section {
	case "company", "school", "showcase", "in":
		return "https://www.linkedin.com/" + section + "/" + path[1]
	case "companies", "organization":
		return "https://www.linkedin.com/company/" + path[1]
	}
	return ""
}

func facebook(_ string, path []string) string {
	if len(path) == 0 {
		return ""
	}
	switch first := strings.ToLower(path[0]); first {
	case "pages", "people":
		if len(path) >= 3 && handle.MatchString(path[2]) {
			return "https://www.facebook.com/" + first + "/" + path[1] + "/" + path[2]
		}
		return ""
	case "pg", "p":
		path = path[1:]
	case "groups", "gaming":
		if len(path) >= 2 && handle.MatchString(path[1]) {
			return "https://www.facebook.com/" + first + "/" + path[1]
		}
		return ""
	}
	return at("www.facebook.com", "", "sharer", "sharer.php", "share", "share.php", "dialog", "plugins", "tr", "events", "watch", "hashtag", "login", "login.php", "photo", "photo.php", "photos", "story.php", "permalink.php", "help", "policies", "policy.php", "privacy", "legal", "business", "marketplace", "about", "home.php", "profile.php", "v2.0", "2008", "fbml", "r.php", "recover")("", path)
}

func youtube(host string, path []string) string {
	if len(path) == 0 || host == "youtu.be" {
		return ""
	}
	switch first := strings.ToLower(path[0]); {
	case strings.HasPrefix(first, "@"):
		if handle.MatchString(path[0]) {
			return "https://www.youtube.com/" + path[0]
		}
	case first == "channel" || first == "c" || first == "user":
		if len(path) >= 2 && handle.MatchString(path[1]) {
			return "https://www.youtube.com/" + first + "/" + path[1]
		}
	default:
		return at("www.youtube.com", "", "watch", "embed", "playlist", "results", "shorts", "live", "feed", "about", "t", "v", "redirect", "premium", "hashtag", "iframe_api", "gaming", "kids", "create", "clip", "post", "static", "ads", "attribution_link")("", path)
	}
	return ""
}

func tiktok(_ string, path []string) string {
	if len(path) == 0 || !strings.HasPrefix(path[0], "@") || !handle.MatchString(path[0]) {
		return ""
	}
	return "https://www.tiktok.com/" + path[0]
}

func threads(_ string, path []string) string {
	if len(path) == 0 || !strings.HasPrefix(path[0], "@") || !handle.MatchString(path[0]) {
		return ""
	}
	return "https://www.threads.net/" + path[0]
}

func discord(host string, path []string) string {
	if host == "discord.gg" && len(path) >= 1 && handle.MatchString(path[0]) {
		return "https://discord.com/invite/" + path[0]
	}
	if len(path) >= 2 && strings.EqualFold(path[0], "invite") && handle.MatchString(path[1]) {
		return "https://discord.com/invite/" + path[1]
	}
	return ""
}

func medium(host string, path []string) string {
	if sub := strings.TrimSuffix(host, ".medium.com"); sub != host && sub != "www" && handle.MatchString(sub) {
		return "https://" + sub + ".medium.com"
	}
	return at("medium.com", "", "m", "p", "me", "tag", "about", "search", "membership", "topic", "new-story", "policy", "jobs-at-medium", "s", "share", "plans")("", path)
}

func wikipedia(host string, path []string) string {
	if len(path) != 2 || path[0] != "wiki" || strings.Contains(path[1], ":") || path[1] == "Main_Page" {
		return ""
	}
	host = strings.Replace(host, ".m.wikipedia.org", ".wikipedia.org", 1)
	if host == "wikipedia.org" || host == "www.wikipedia.org" {
		host = "en.wikipedia.org"
	}
	return "https://" + host + "/wiki/" + url.PathEscape(path[1])
}

// sharePaths are parts of addresses of share dialogs, on any network; postPaths those of single posts, when
// more follows: a profile has a tab of that name.
var (
	sharePaths = []string{"intent", "share-offsite", "sharer", "sharearticle", "share", "create"}
	postPaths  = []string{"status", "statuses", "posts", "videos", "photos", "permalink", "stream-item", "moments"}
)

// vendors are handles of who made the site, not of whose it is.
var vendors = set("wordpress", "wordpressdotcom", "automattic", "shopify", "wix", "squarespace", "google", "elementor", "webflow", "weebly", "godaddy", "themeforest", "envato", "wpengine", "jetpack", "facebook", "twitter", "x", "instagram", "youtube", "linkedin", "pinterest", "tiktok", "example", "username", "yourusername", "yourpage", "yourhandle")

// Profile reads the address of a profile: its network and its canonical URL; ok is false for anything
// else, such as a share button or a single post.
func Profile(u *url.URL) (name, canonical string, ok bool) {
	if u == nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", "", false
	}
	host := strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")
	var path []string
	for part := range strings.SplitSeq(u.Path, "/") {
		if part != "" && part != "#!" {
			path = append(path, part)
		}
	}
	for i, part := range path {
		part = strings.ToLower(part)
		if i > 0 && (slices.Contains(sharePaths, part) || slices.Contains(postPaths, part) && i+1 < len(path)) {
			return "", "", false
		}
	}
	for _, n := range networks {
		if !n.serves(host) {
			continue
		}
		if canonical = n.profile(host, path); canonical == "" {
			return "", "", false
		}
		return n.name, canonical, true
	}
	return "", "", false
}

func (n network) serves(host string) bool {
	for _, h := range n.hosts {
		if host == h || strings.HasSuffix(host, "."+h) {
			return true
		}
	}
	return n.name == "pinterest" && pinterestHost.MatchString(host)
}

// profile is one candidate for a network's link.
type profile struct {
	network, url, method string
	score                float64
	repeats              int  // further mentions
	personal             bool // linkedin.com/in
}

// What tells the brand's own profile from others it links to.
const (
	sameAsScore  = 40.0
	siteTagScore = 35.0
	meScore      = 30.0
	edgeScore    = 20.0 // in header, navigation or footer
	bodyScore    = 5.0
	handleWeight = 30.0 // times the handle's fit to the domain
	repeatScore  = 4.0  // for each further place, up to maxRepeats
	maxRepeats   = 3
	minLinkScore = 18.0 // a single link in running text with an unrelated handle stays below
)

// Links decides one profile a network, in the order of the specification.
func Links(in Input) Found[[]eventschemas.Link] {
	best := map[string]profile{}
	byURL := map[string]*profile{}
	var all []*profile
	for _, c := range profiles(in) {
		key := c.network + " " + strings.ToLower(c.url)
		if have := byURL[key]; have != nil {
			have.score = max(have.score, c.score)
			have.repeats = min(have.repeats+1, maxRepeats)
			continue
		}
		byURL[key] = &c
		all = append(all, &c)
	}
	for _, c := range all {
		c.score += repeatScore * float64(c.repeats)
		have, ok := best[c.network]
		if c.score >= minLinkScore && (!ok || c.score > have.score) {
			best[c.network] = *c
		}
	}
	out := Found[[]eventschemas.Link]{Value: []eventschemas.Link{}, Source: in.source(), Method: "profile links", Confidence: 0.9}
	for _, n := range networks {
		if c, ok := best[n.name]; ok {
			out.Value = append(out.Value, eventschemas.Link{Name: c.network, URL: c.url})
		}
	}
	return out
}

// profiles lists every mention of a profile.
func profiles(in Input) []profile {
	var out []profile
	add := func(u *url.URL, method string, base float64) {
		name, canonical, ok := Profile(u)
		if !ok || in.Site.Own(u) && !ownProfile(in, u) {
			return
		}
		p := profile{network: name, url: canonical, method: method, personal: strings.Contains(canonical, "linkedin.com/in/")}
		last := lastPart(canonical)
		if vendors[folded(last)] && in.fits(last) < exactFit {
			return
		}
		p.score = base + handleWeight*in.fits(strings.TrimPrefix(last, "@"))
		if p.personal {
			p.score -= sameAsScore
		}
		out = append(out, p)
	}
	if owner := in.owner(); owner != nil {
		for _, s := range owner.URLs("sameAs") {
			add(in.Page.Resolve(s), "sameAs", sameAsScore)
		}
	}
	if site := strings.TrimPrefix(in.Page.Meta("twitter:site"), "@"); handle.MatchString(site) {
		add(&url.URL{Scheme: "https", Host: "x.com", Path: "/" + site}, "twitter:site", siteTagScore)
	}
	for _, a := range in.Page.Anchors {
		switch {
		case a.Me:
			add(a.URL, "rel=me", meScore)
		case a.Zone == page.Body:
			add(a.URL, "link", bodyScore)
		default:
			add(a.URL, "link in "+a.Zone.String(), edgeScore)
		}
	}
	// Stable, so that equal scores keep the order of the page.
	slices.SortStableFunc(out, func(a, b profile) int { return cmp.Compare(networkIndex(a.network), networkIndex(b.network)) })
	return out
}

// ownProfile says whether a network's own site links to its own profile there, as github.com does.
func ownProfile(in Input, u *url.URL) bool {
	_, canonical, ok := Profile(u)
	if !ok {
		return false
	}
	return folded(lastPart(canonical)) == folded(in.Site.Label)
}

// lastPart is the handle of a profile's address.
func lastPart(canonical string) string {
	canonical = strings.TrimSuffix(canonical, "/")
	return canonical[strings.LastIndexByte(canonical, '/')+1:]
}

func networkIndex(name string) int {
	return slices.IndexFunc(networks, func(n network) bool { return n.name == name })
}
