package classify

import (
	"regexp"
	"strings"

	"letterhead/workers/crawl/page"
)

// challengeTitles are titles of challenge and refusal pages.
var challengeTitles = regexp.MustCompile(`(?i)^(just a moment|attention required!|access (to this page has been )?denied|are you (a )?(human|robot)|human verification|(please )?verify (that )?you('| a)re (a )?human|verifying you are human|security check(point)?$|pardon our interruption|ddos-guard|checking your browser|one moment, please|bot verification|robot or human|robot check|vercel security checkpoint|making sure you('| a)re not a bot|client challenge|captcha|request unsuccessful|request rejected|error: the request could not be satisfied|403 forbidden|forbidden$|unusual traffic|radware)`)

// challengeWordings are sentences of challenge and refusal pages.
var challengeWordings = regexp.MustCompile(`(?i)verify (that )?you are (a )?human|verifying you are human|unusual traffic|complete the captcha|solve (the|this) captcha|enable javascript and cookies to continue|checking (if the site connection is secure|your browser before)|prove you are not a (ro)?bot|you have been blocked|request could not be satisfied|incapsula incident|access to this page has been denied|press & hold to confirm|not a bot!`)

// accessDenied is Akamai's refusal.
var accessDenied = regexp.MustCompile(`(?i)access denied[\s\S]{0,400}reference\s*#`)

// challengeScripts are traces in inline scripts.
var challengeScripts = []struct{ trace, sign string }{
	{"_cf_chl_opt", "Cloudflare challenge script"},
	{"window._pxAppId", "PerimeterX script"},
	{"AwsWafIntegration", "AWS WAF script"},
	{"gokuProps", "AWS WAF script"},
	{"ddjskey", "DataDome script"},
	{"var dd={", "DataDome script"},
	{"KPSDK", "Kasada script"},
}

// challengeSources are hosts and paths of challenge scripts and frames. Some of them load on good pages
// too, which is why a page of its own words is never refused for them.
var challengeSources = []string{
	"captcha-delivery.com", "_Incapsula_Resource", "awswaf.com", "perimeterx.net", "px-captcha", "px-cdn.net", "/cdn-cgi/challenge-platform/",
	"challenges.cloudflare.com", "recaptcha/api", "recaptcha/enterprise", "hcaptcha.com/1/api", "arkoselabs.com", "geo.captcha", "ddos-guard.net",
}

// challengeIDs are ids of elements of challenge pages.
var challengeIDs = []string{"anubis_challenge", "px-captcha", "cf-challenge-running", "challenge-form", "challenge-running", "cf-wrapper", "captcha-container", "sec-if-cpt-container"}

// challengeSign names the strongest trace of a challenge on a page, "" for none. Whether it counts depends
// on the status and on what else the page says.
func challengeSign(a Answer) string {
	p := a.Page
	if m := challengeTitles.FindString(p.Title); m != "" {
		return "title of a challenge"
	}
	if p.Words < challengeWords*2 && (challengeWordings.MatchString(p.Text) || accessDenied.MatchString(p.Title+" "+p.Text)) {
		return "wording of a challenge"
	}
	for _, c := range challengeScripts {
		if strings.Contains(p.Script, c.trace) {
			return c.sign
		}
	}
	for _, id := range challengeIDs {
		if p.ElementID[id] {
			return "challenge element " + id
		}
	}
	for _, source := range p.Sources {
		text := source.Host + source.Path
		for _, s := range challengeSources {
			if strings.Contains(text, s) && p.Words < challengeWords/2 {
				return "challenge script " + s
			}
		}
	}
	return ""
}

// parkingHosts serve the scripts and frames of parking pages, and nothing else.
var parkingHosts = []string{
	"sedoparking.com", "parkingcrew.net", "bodis.com", "parklogic.com", "cashparking.com", "skenzo.com", "fastpark.net", "smartname.com",
	"ztomy.com", "parked-content.godaddy.com", "rookdns.com", "voodoo.com", "domainsponsor.com", "parking.namesilo.com", "namebrightstatic.com",
	"d38psrni17bvxu.cloudfront.net", "d1lxhc4jvstzrp.cloudfront.net", "parkingpage.namecheap.com", "uniregistry.com", "torresdns.com", "dsultra.com",
}

// markets sell domains: a redirect to one of them is an offer.
var markets = []string{"hugedomains.com", "dan.com", "afternic.com", "sedo.com", "atom.com", "squadhelp.com", "buydomains.com", "domainmarket.com", "brandbucket.com", "undeveloped.com", "above.com", "epik.com", "brandpa.com", "saw.com", "dynadot.com", "namebright.com", "domainnamesales.com"}

// offers are wordings of domains for sale and of parking pages.
var offers = regexp.MustCompile(`(?i)\b(domain( name)?|website|site)\b[^.]{0,40}\b(is|may be|could be)( now)? (still )?(for sale|available for (sale|purchase)|parked)|\b(buy|purchase|acquire|own|inquire about|get) (this|the) domain\b|\bdomain (name )?for sale\b|\bthis domain (has been|is|was) (registered|purchased|reserved|parked|expired|pending)|\bparked (free|domain|for free|page|by|courtesy)|\bdomain (parking|is parked)|\b(this|the) domain (name )?has (recently )?expired|\bdiese domain (steht|ist|kann)|\bdomain steht zum verkauf|\bce (nom de )?domaine est (à|a) vendre|\beste dominio está en venta|\bthis (web ?page|page|site) is parked`)

// namedOffer is an offer in a title that names the domain itself: "acme.com is for sale".
var namedOffer = regexp.MustCompile(`(?i)^(the (domain )?(name )?)?[\w.-]+\.[a-z]{2,} (is|may be) (for sale|available|parked|a premium domain)`)

func parkedSign(a Answer) string {
	p := a.Page
	for _, source := range p.Sources {
		host := source.Hostname()
		for _, h := range parkingHosts {
			if host == h || strings.HasSuffix(host, "."+h) {
				return "script of " + h
			}
		}
		if strings.Contains(host+source.Path, "wsimg.com/parking-lander") {
			return "parking lander"
		}
	}
	if p.URL != nil {
		for _, m := range markets {
			if host := p.URL.Hostname(); (host == m || strings.HasSuffix(host, "."+m)) && a.Site.Domain != m {
				return "redirect to " + m
			}
		}
	}
	if p.Words >= parkedWords {
		return ""
	}
	if namedOffer.MatchString(p.Title) || offers.MatchString(p.Title) {
		return "title of a domain offer"
	}
	head := strings.Join(append([]string{p.Meta("description", "og:description")}, p.Headings...), ". ")
	if offers.MatchString(head) && !hasOwner(p) {
		return "wording of a domain offer"
	}
	// In running text the offer must be about this very domain.
	if offers.MatchString(p.Text) && mentions(p.Text, a.Site.Domain) && innerLinks(p) < ownLinks {
		return "wording of a domain offer"
	}
	return ""
}

func mentions(text, domain string) bool { return strings.Contains(strings.ToLower(text), domain) }

// emptyTitles are titles of pages that a web server, a panel or a builder shows until somebody sets it up.
var emptyTitles = regexp.MustCompile(`(?i)^(welcome to (nginx|openresty|tengine|caddy|centos|apache|our server)|(apache2? )?.{0,20}default page: it works|apache(2| http server)? .{0,30}(test|default) page|test page for .{0,30}(apache|nginx|http server)|iis ?\d*( windows.*)?$|microsoft internet information services|windows server|index of /|it works!?$|default (web ?site|web) page|web server'?s default page|domain default page|plesk |account suspended|website (is )?suspended|site not (found|published)|future home of|placeholder page|http server test page|lighttpd|congratulations! your|hosting .{0,30}default|vite \+|react app$|my wordpress blog|parallels (plesk|h-sphere))`)

// soonTitles are titles of pages that somebody promises to make.
var soonTitles = regexp.MustCompile(`(?i)\b(coming soon|under construction|launching soon|opening soon|site (is )?(under|in) maintenance|maintenance mode|website is being (built|updated)|en construction|en construcción|im aufbau|in kürze|em constru[cç][aã]o|in costruzione)\b`)

// errorTitles are titles of error pages that come with status 200.
var errorTitles = regexp.MustCompile(`(?i)^(404|410|500|502|503)\b|^(error )?(404|page not found|not found|file not found|site not found|no such (app|site|bucket)|domain not (found|configured|claimed)|there isn't a github pages site here)`)

func placeholderSign(a Answer) string {
	p := a.Page
	switch {
	case emptyTitles.MatchString(p.Title) && saysNothing(p, placeholderWords*2):
		return "default page"
	case errorTitles.MatchString(p.Title) && saysNothing(p, placeholderWords):
		return "error page"
	case soonTitles.MatchString(strings.Join(append([]string{p.Title}, p.Headings...), " | ")) && p.Words < placeholderWords && innerLinks(p) < ownLinks:
		return "coming soon"
	case strings.HasPrefix(p.Text, "Index of /") && !hasOwner(p):
		return "directory listing"
	}
	return ""
}

// TrivialRefresh returns where a page immediately leads with a meta refresh, when that is all it does.
func TrivialRefresh(p *page.Page) bool {
	return p.Refresh != nil && p.Refresh.Seconds <= maxRefreshSeconds && saysNothing(p, challengeWords)
}

// maxRefreshSeconds is the longest wait of a meta refresh that is followed.
const maxRefreshSeconds = 5
