package crawl

import (
	"net/url"
	"slices"
	"strings"

	"letterhead/domain/brand"
)

// platforms are hosts, other than the networks, where many brands have one page each, with the platform's name and
// icon: link lists, maps, reviews, markets, payments. Platforms with a separate host for each brand are not listed.
var platforms = []string{
	"linktr.ee", "beacons.ai", "bio.link", "lnk.bio", "campsite.bio", "taplink.cc", "linkin.bio", "about.me", "flow.page", "allmylinks.com", "solo.to",
	"google.com", "maps.google.com", "business.google.com", "sites.google.com", "docs.google.com", "drive.google.com", "play.google.com", "g.page", "goo.gl", "maps.app.goo.gl", "forms.gle",
	"apps.apple.com", "maps.apple.com", "podcasts.apple.com", "music.apple.com", "open.spotify.com", "soundcloud.com", "vimeo.com", "twitch.tv",
	"yelp.com", "tripadvisor.com", "trustpilot.com", "booking.com", "airbnb.com", "opentable.com", "doordash.com", "ubereats.com", "grubhub.com",
	"etsy.com", "ebay.com", "amazon.com", "paypal.com", "paypal.me", "venmo.com", "cash.app", "patreon.com", "ko-fi.com", "buymeacoffee.com", "gofundme.com", "kickstarter.com", "indiegogo.com", "eventbrite.com", "meetup.com",
	"reddit.com", "t.me", "telegram.me", "wa.me", "api.whatsapp.com", "chat.whatsapp.com", "m.me", "vk.com", "ok.ru", "weibo.com", "xing.com", "snapchat.com",
	"gitlab.com", "bitbucket.org", "npmjs.com", "pypi.org", "notion.so", "dropbox.com", "calendly.com", "behance.net", "dribbble.com", "quora.com", "goodreads.com", "imdb.com", "producthunt.com", "wellfound.com",
}

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
	return slices.Contains(platforms, host) || slices.Contains(platforms, strings.TrimPrefix(host, "m.")) || brand.NetworkOf(host) != ""
}
