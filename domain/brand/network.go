package brand

import (
	"regexp"
	"slices"
	"strings"
)

// Network is a service where brands have profiles, to which the links of a record lead.
type Network struct {
	Name       string
	hosts      []string // registrable hosts
	subdomains bool     // profiles or languages of any length precede the host
}

// Networks in the documented order.
var Networks = []Network{
	{Name: "twitter", hosts: []string{"twitter.com", "x.com"}},
	{Name: "linkedin", hosts: []string{"linkedin.com", "lnkd.in"}},
	{Name: "github", hosts: []string{"github.com"}},
	{Name: "instagram", hosts: []string{"instagram.com", "instagr.am"}},
	{Name: "facebook", hosts: []string{"facebook.com", "fb.com", "fb.me"}},
	{Name: "youtube", hosts: []string{"youtube.com", "youtu.be"}},
	{Name: "tiktok", hosts: []string{"tiktok.com"}},
	{Name: "crunchbase", hosts: []string{"crunchbase.com"}},
	{Name: "discord", hosts: []string{"discord.gg", "discord.com", "discordapp.com"}},
	{Name: "pinterest", hosts: []string{"pinterest.com", "pin.it"}},
	{Name: "threads", hosts: []string{"threads.net", "threads.com"}},
	{Name: "bluesky", hosts: []string{"bsky.app"}},
	{Name: "medium", hosts: []string{"medium.com"}, subdomains: true},
	{Name: "wikipedia", hosts: []string{"wikipedia.org"}, subdomains: true},
}

var (
	// pinterestHost matches the country forms of pinterest, such as pinterest.de and pinterest.co.uk.
	pinterestHost = regexp.MustCompile(`^([a-z]{2,3}\.)?pinterest\.(com|[a-z]{2}|com?\.[a-z]{2})$`)
	// profileHost matches a device or a language before the host of a profile. The network itself has others: docs,
	// help.
	profileHost = regexp.MustCompile(`^(?:www|m|mobile|web|touch|mbasic|[a-z]{2}|[a-z]{2}-[a-z]{2})$`)
)

// NetworkOf returns the name of the network whose profiles a host serves, or "" if there is none.
func NetworkOf(host string) string {
	host = strings.TrimPrefix(strings.ToLower(host), "www.")
	if i := slices.IndexFunc(Networks, func(n Network) bool { return n.serves(host) }); i >= 0 {
		return Networks[i].Name
	}
	return ""
}

func (n Network) serves(host string) bool {
	for _, h := range n.hosts {
		sub, below := strings.CutSuffix(host, "."+h)
		if host == h || below && (profileHost.MatchString(sub) || n.subdomains) {
			return true
		}
	}
	return n.Name == "pinterest" && pinterestHost.MatchString(host)
}
