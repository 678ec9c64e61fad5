package extract

import (
	"net/url"
	"slices"
	"strings"

	"letterhead/domain/brand"
	"letterhead/internal/lazyregexp"
)

var handle = lazyregexp.New(`^@?[\p{L}\p{N}_.\-]{1,100}$`)

// machineFile matches scripts and documents of the network itself.
var machineFile = lazyregexp.New(`\.(php|html?|js|aspx?|xml|json|png|jpe?g|svg|pdf)$`)

// at builds the profile function of networks with profiles at https://host/handle.
func at(host string) func(string, []string) string {
	reserved := tables.Set("reserved on " + host)
	return func(_ string, path []string) string {
		if len(path) == 0 {
			return ""
		}
		name := strings.TrimPrefix(path[0], "@")
		lower := strings.ToLower(name)
		if !handle.MatchString(name) || reserved[lower] || machineFile.MatchString(lower) {
			return ""
		}
		return "https://" + host + "/" + name
	}
}

var (
	onX, onGitHub, onInstagram      = at("x.com"), at("github.com"), at("www.instagram.com")
	onFacebook, onYouTube, onMedium = at("www.facebook.com"), at("www.youtube.com"), at("medium.com")
	inDiscord                       = below("discord.com", "invite")
)

var twitterName = lazyregexp.New(`/[A-Za-z0-9_]{1,15}$`) // matches the names that the network allows

func twitter(host string, path []string) string {
	if u := onX(host, path); twitterName.MatchString(u) {
		return u
	}
	return ""
}

func instagram(host string, path []string) string {
	if u := onInstagram(host, path); u != "" {
		return u + "/"
	}
	return ""
}

// profileOn reads the path of a profile on each of brand.Networks and returns
// its canonical URL, or "" if the path is not a profile.
var profileOn = map[string]func(host string, path []string) string{
	"twitter":    twitter,
	"linkedin":   linkedin,
	"github":     github,
	"instagram":  instagram,
	"facebook":   facebook,
	"youtube":    youtube,
	"tiktok":     withSign("www.tiktok.com"),
	"crunchbase": below("www.crunchbase.com", "organization", "company"),
	"discord":    discord,
	"pinterest":  at("www.pinterest.com"),
	"threads":    withSign("www.threads.net"),
	"bluesky":    bluesky,
	"medium":     medium,
	"wikipedia":  wikipedia,
}

// below builds the profile function of networks with profiles at https://host/section/handle.
func below(host string, sections ...string) func(string, []string) string {
	return func(_ string, path []string) string {
		if len(path) < 2 || !slices.Contains(sections, strings.ToLower(path[0])) || !handle.MatchString(path[1]) {
			return ""
		}
		return "https://" + host + "/" + sections[0] + "/" + path[1]
	}
}

// github reads the URL of an organization's settings as the organization's.
func github(host string, path []string) string {
	if len(path) > 1 && path[0] == "orgs" {
		path = path[1:]
	}
	return onGitHub(host, path)
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
		if len(path) >= 4 && path[1] == "category" && handle.MatchString(path[3]) {
			return "https://www.facebook.com/pages/category/" + path[2] + "/" + path[3]
		}
		if len(path) >= 3 && (handle.MatchString(path[1]) && handle.MatchString(path[2]) ||
			numericID.MatchString(path[2])) {
			return "https://www.facebook.com/" + first + "/" + path[1] + "/" + path[2]
		}
		return ""
	case "pg":
		path = path[1:]
	case "groups", "gaming", "p":
		if len(path) >= 2 && handle.MatchString(path[1]) {
			return "https://www.facebook.com/" + first + "/" + path[1]
		}
		return ""
	}
	return onFacebook("", path)
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
		return onYouTube("", path)
	}
	return ""
}

// withSign builds the profile function of networks with profiles at https://host/@handle.
func withSign(host string) func(string, []string) string {
	return func(_ string, path []string) string {
		if len(path) == 0 || !strings.HasPrefix(path[0], "@") || !handle.MatchString(path[0]) {
			return ""
		}
		return "https://" + host + "/" + path[0]
	}
}

func discord(host string, path []string) string {
	if host == "discord.gg" {
		path = append([]string{"invite"}, path...)
	}
	return inDiscord(host, path)
}

func bluesky(host string, path []string) string {
	if len(path) >= 2 && path[0] == "profile" && decentralID.MatchString(path[1]) {
		return "https://bsky.app/profile/" + path[1]
	}
	return below("bsky.app", "profile")(host, path)
}

var decentralID = lazyregexp.New(`^did:plc:[a-z0-9]{10,40}$`) // the identifier of a profile without a name
var mediumOwn = tables.List("mediumOwn")                      // subdomains that the network reserves

func medium(host string, path []string) string {
	if sub, below := strings.CutSuffix(host, ".medium.com"); below && sub != "m" {
		if slices.Contains(mediumOwn, sub) || !handle.MatchString(sub) {
			return ""
		}
		return "https://" + sub + ".medium.com"
	}
	if profile := withSign("medium.com")(host, path); profile != "" {
		return profile
	}
	return onMedium("", path)
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

// sharePaths are parts of URLs of share dialogs, on any network; postPaths are parts of URLs of single posts if more
// segments follow: a profile has a tab of that name.
var (
	sharePaths = []string{"intent", "share-offsite", "sharer", "sharearticle", "share", "create"}
	postPaths  = tables.List("postPaths")
)

var vendors = FoldedSet(tables.List("vendors")...) // handles of site builders and tools, not of the site's owner
var numericID = lazyregexp.New(`^\d{3,20}$`)       // the number of a profile without a name

// Profile reads the URL of a profile: its network and its canonical URL. ok is
// false for anything else, such as a share button or a single post.
func Profile(u *url.URL) (name, canonical string, ok bool) {
	if u == nil || !brand.IsWebURL(u) {
		return "", "", false
	}
	host := strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")
	if strings.EqualFold(strings.Trim(u.Path, "/"), "profile.php") &&
		(host == "facebook.com" || strings.HasSuffix(host, ".facebook.com")) {
		if id := u.Query().Get("id"); numericID.MatchString(id) {
			return "facebook", "https://www.facebook.com/profile.php?id=" + id, true
		}
		return "", "", false
	}
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
	if name = brand.NetworkOf(host); name == "" {
		return "", "", false
	}
	canonical = profileOn[name](host, path)
	if name == "facebook" && canonical != "" && !strings.EqualFold(path[0], "pg") {
		canonical = asWritten(u, strings.Count(canonical, "/")-len("//"))
	}
	return name, canonical, canonical != ""
}

// asWritten returns a URL with only the first segments of its path: Facebook does not know all pages by other addresses.
func asWritten(u *url.URL, segments int) string {
	out := "https://" + strings.ToLower(u.Host)
	for part := range strings.SplitSeq(u.EscapedPath(), "/") {
		if part == "" || part == "#!" {
			continue
		}
		if segments--; segments < 0 {
			return out
		}
		out += "/" + part
	}
	if strings.HasSuffix(u.EscapedPath(), "/") {
		out += "/"
	}
	return out
}
