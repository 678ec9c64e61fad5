package extract

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"letterhead/domain/brand"
	"letterhead/internal/lazyregexp"
)

const handleName = `[\p{L}\p{N}_.\-]+` // without a limit, which takes a megabyte in each of the forms below

var handle = lazyregexp.New(`^@?[\p{L}\p{N}_.\-]{1,100}$`)

const maxHandle = 100 // limits the letters of a handle

// machineFile matches scripts and documents of the network itself.
var machineFile = lazyregexp.New(`\.(php|html?|js|aspx?|xml|json|png|jpe?g|svg|pdf)$`)

// profileForm is a form of the URLs of profiles on a network.
type profileForm struct {
	expression *lazyregexp.Regexp // for the host and the path; its first group is the handle
	canonical  string             // the profile's URL, with the groups
	reserved   map[string]bool    // handles that are pages of the network itself; nil if others precede the handle
}

// profileForms are the forms on each of brand.Networks except wikipedia; the first that matches counts. In the table
// SITE is any host, NAME a handle, and HANDLE one with or without an at sign.
var profileForms = func() map[string][]profileForm {
	out := map[string][]profileForm{}
	parts := strings.NewReplacer("SITE", `[^/]+`, "HANDLE", `@?`+handleName, "NAME", handleName)
	for _, row := range tables.Rows("profiles", 4) {
		form := profileForm{expression: lazyregexp.New(`(?s)^` + parts.Replace(row[1]) + `(?:/.*)?$`), canonical: row[2]}
		if row[3] != "-" {
			form.reserved = tables.Set(row[3])
		}
		out[row[0]] = append(out[row[0]], form)
	}
	return out
}()

// profileOn returns the canonical URL of a profile on a network, or "" if the path is not a profile.
func profileOn(network, host string, path []string) string {
	if network == "wikipedia" {
		return wikipedia(host, path)
	}
	address := host + "/" + strings.Join(path, "/")
	for _, form := range profileForms[network] {
		m := form.expression.FindStringSubmatch(address)
		if m == nil || slices.ContainsFunc(m[1:], func(part string) bool {
			return utf8.RuneCountInString(strings.TrimPrefix(part, "@")) > maxHandle
		}) {
			continue
		}
		name := strings.ToLower(m[1])
		if form.reserved == nil || !form.reserved[name] && !machineFile.MatchString(name) {
			return form.expression.ReplaceAllString(address, form.canonical)
		}
	}
	return ""
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
	canonical = profileOn(name, host, path)
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
