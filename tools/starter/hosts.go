package main

import (
	"net/url"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// sharedHosts are registrable domains, and public suffixes, where anyone can have pages, files or profiles. A link
// there does not identify the owner of a product; only the host's own brand may own the domain.
var sharedHosts = hostSet(`
	bitbucket.org codeberg.org freedesktop.org gitbook.io gitcode.com gitea.com gitee.com githubassets.com
	githubusercontent.com github.com gitlab.com gitlab.io gnome.org huggingface.co launchpad.net modelscope.cn
	notabug.org readthedocs.io readthedocs.org sourceforge.net sourcehut.org sr.ht

	f-droid.org flathub.org itch.io microsoft.com snapcraft.io steamcommunity.com steamgames.com steampowered.com
	visualstudio.com wordpress.org

	bilibili.com blogspot.com bsky.app bsky.social dev.to discord.com discord.gg discordapp.com facebook.com fb.com
	flickr.com hashnode.dev imgur.com instagram.com linkedin.com mastodon.social medium.com patreon.com pinterest.com
	quora.com reddit.com soundcloud.com spotify.com substack.com t.me telegram.org threads.net tiktok.com tumblr.com
	twitch.tv twitter.com vimeo.com vk.com weibo.com wordpress.com x.com youtu.be youtube.com zhihu.com

	fandom.com namu.wiki wikia.com wikidata.org wikimedia.org wikipedia.org

	crates.io docker.com hex.pm npmjs.com npmjs.org nuget.org packagist.org pub.dev pypi.org rubygems.org

	akamaihd.net akamaized.net alicdn.com aliyuncs.com amazonaws.com azureedge.net cdnjs.com cloudfront.net
	cloudinary.com contentful.com ctfassets.net datocms-assets.com fastly.net fbcdn.net ggpht.com googleapis.com
	googleusercontent.com graphassets.com gstatic.com imgix.net jsdelivr.net kxcdn.com licdn.com myqcloud.com
	prismic.io sanity.io scene7.com shopify.com squarespace-cdn.com squarespace.com storyblok.com twimg.com unpkg.com
	webflow.com website-files.com windows.net wixstatic.com wp.com

	airtable.com behance.net box.com canva.com dribbble.com dropbox.com dropboxusercontent.com figma.com google.com
	icons8.com invisionapp.com issuu.com mediafire.com mega.nz notion.com notion.site notion.so onedrive.com
	scribd.com sharepoint.com slideshare.net supernova.io wetransfer.com zeplin.io zeroheight.com

	archive.is archive.org archive.ph archive.today webcitation.org

	acquia.com brandcenter.me brandfetch.com brandfolder.com brandhub.com brandpad.io brandworkz.com bynder.com
	canto.com canto.global corebook.io dpdhl-brands.com frontify.com lingoapp.com mediavalet.com papirfly.com
	presskit.to prezly.com prowly.com widen.net widencollective.com withgoogle.com google

	1000logos.net brandsoftheworld.com flaticon.com fontawesome.com freebiesupply.com freelogovectors.net
	iconify.design iconscout.com logodix.com logolynx.com logos-world.net logotyp.us logowik.com seeklogo.com
	seeklogo.net simpleicons.org svgporn.com svgrepo.com vectorlogo.es vectorlogo.zone worldvectorlogo.com

	bit.ly businesswire.com europa.eu globenewswire.com goo.gl justia.com lnkd.in prnewswire.com stackexchange.com
	stackoverflow.com techcrunch.com theverge.com tinyurl.com tmdn.org trademarkia.com underconsideration.com
	uspto.gov wipo.int
`)

// hostBrands are the brands of shared hosts with a different spelling.
var hostBrands = map[string]string{
	"archive.org":      "internetarchive",
	"steampowered.com": "steam",
}

func hostSet(list string) map[string]bool {
	set := make(map[string]bool)
	for _, h := range strings.Fields(list) {
		set[h] = true
	}
	return set
}

// place is the information in a link about a product's site.
type place struct {
	Domain string // registrable domain
	Shared bool   // anyone can have pages there
	Front  bool   // the link is the front page of the domain itself
}

// placeOf parses a link. It returns false for links without a registrable domain.
func placeOf(link string) (place, bool) {
	u, err := url.Parse(strings.TrimSpace(link))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return place{}, false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	host, err = idna.Lookup.ToASCII(host)
	if err != nil {
		return place{}, false
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return place{}, false
	}
	suffix, icann := publicsuffix.PublicSuffix(host)
	if sharedHosts[suffix] {
		return place{}, false // a kit on notion.site is not the project's own site
	}
	p := place{
		Domain: domain,
		Shared: sharedHosts[domain] || !icann && strings.Contains(suffix, "."),
		Front:  (host == domain || host == "www."+domain) && frontPath(u),
	}
	return p, true
}

// ownsHost reports whether a product that fits a shared host is that host's own brand.
func ownsHost(p *product, domain string, f fit) bool {
	if f >= decorated {
		return true
	}
	for _, n := range allNames(p) {
		if n == hostBrands[domain] {
			return true
		}
	}
	return false
}

// frontPath reports whether a path is a site's front page, in any language.
func frontPath(u *url.URL) bool {
	path := strings.Trim(strings.ToLower(u.Path), "/")
	switch {
	case u.RawQuery != "" || path == "ir" || path == "pr":
		return false
	case path == "" || path == "home" || path == "index.html":
		return true
	case len(path) == 2: // a language, as in /en
		return true
	case len(path) == 5 && (path[2] == '-' || path[2] == '_' || path[2] == '/'): // en-us, en/us
		return true
	}
	return false
}
