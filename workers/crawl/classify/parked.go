package classify

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// parkingHosts serve only the scripts and frames of parking pages.
var parkingHosts = []string{
	"sedoparking.com", "parkingcrew.net", "bodis.com", "parklogic.com", "cashparking.com", "skenzo.com", "fastpark.net", "smartname.com",
	"ztomy.com", "parked-content.godaddy.com", "rookdns.com", "voodoo.com", "domainsponsor.com", "parking.namesilo.com", "namebrightstatic.com",
	"d38psrni17bvxu.cloudfront.net", "d1lxhc4jvstzrp.cloudfront.net", "parkingpage.namecheap.com", "uniregistry.com", "torresdns.com", "dsultra.com",
	"above.com", "parking.reg.ru", "parking-assets.dynadot.com", "cdn.dan.com", "cdn1.dan.com", "cdn2.dan.com", "parkweb.vip", "domaincntrol.com", "tracking.afternic.com",
}

// parkingSources are parts of URLs of scripts and frames of parking pages.
var parkingSources = []string{"wsimg.com/parking-lander", "google.com/adsense/domains/caf.js", "/adsense/domains/", "parking.js?domain", "sedo.com/services/parking", "park.js?domain"}

// parkingScripts are traces in inline scripts of parking pages.
var parkingScripts = []string{`window.park = "`, `window.location.href="/lander"`, `window.location.replace("/lander`, `window.LANDER_SYSTEM`, `parkingcrew`, `sedoparking`, `new CAF(`, `google.ads.domains.Caf`}

// markets sell domains: a redirect to one of them is an offer.
var markets = []string{
	"hugedomains.com", "dan.com", "afternic.com", "sedo.com", "atom.com", "squadhelp.com", "buydomains.com", "domainmarket.com", "brandbucket.com", "undeveloped.com",
	"above.com", "epik.com", "brandpa.com", "saw.com", "dynadot.com", "namebright.com", "domainnamesales.com", "perfectdomain.com", "efty.com", "domainagents.com",
	"nicsell.com", "domaineasy.com", "sav.com", "park.io", "spaceship.com", "forsale.godaddy.com", "domains.atom.com", "nameshift.com", "uniregistry.com",
}

// offers matches wordings of domains for sale and of parking pages, in the languages of registrars.
var offers = lazyregexp.New(`(?i)\b(domain( name)?|website|site)\b(?:[^.!?]|\.\S){0,40}\b(is|may be|could be|might be)( now)? (still )?(for sale|available for (sale|purchase)|parked)|\b(buy|purchase|acquire|own|inquire about|get|make an offer (on|for)|bid on) (this|the) (premium )?domain\b|\b(premium )?domain (name )?(is )?for sale\b|\bthis domain( name)? (has been|is|was)( just| recently| already| newly)? (registered|purchased|reserved|parked|expired|pending|listed)|\b(recently|newly|just) registered (at|with|by|through) |\bregistered at namecheap|\bparked (free|domain|for free|page|by|at|courtesy)|\bdomain (parking|is parked)|\b(this|the) domain (name )?has (recently )?expired|\bthis (web ?page|page|site) is parked|isn'?t connected to a website yet|\bclaim this domain\b` +
	`|\bdiese domain (steht|ist (zu|registriert|bereits|geparkt|reserviert)|kann (gekauft|erworben)|wurde (registriert|reserviert|soeben|erfolgreich))|\bdomain (steht zum verkauf|geparkt|zu verkaufen|kaufen)|\bdomain wurde (soeben )?(registriert|eingerichtet)` +
	`|\b(ce (nom de )?domaine|ce site) (est|a été) (à vendre|a vendre|réservé(\.|,|!| par| chez| pour|$)|enregistré|déjà|parqué|en vente)|\b(nom de )?domaine (à|a) vendre|\bacheter ce (nom de )?domaine` +
	`|\b(este|el) dominio (está|esta|ha sido|puede) (en venta|a la venta|registrado|aparcado|estacionado|ser tuyo|reservado)|\bdominio en venta|\bcomprar este dominio` +
	`|\b(questo|il) dominio (è|e|è stato) (in vendita|registrato|parcheggiato)|\bdominio in vendita` +
	`|\beste dom[ií]nio (está|foi|pode) (à venda|registrado|registado|estacionado|reservado)|\bdom[ií]nio à venda` +
	`|\b(deze|dit) domein(naam)? (is|staat) (te koop|geregistreerd|gereserveerd|geparkeerd)|\bdomein(naam)? te koop` +
	`|\b(den här |denna )?domänen? är (till salu|parkerad|registrerad)|\bdomæne[nt]? er (til salg|parkeret|registreret)|\bdomenet er (til salgs|parkert|registrert)|\bverkkotunnus on (myytävänä|varattu|parkkeerattu)` +
	`|\b(ta )?domena (jest )?(na sprzedaż|zaparkowana|zarejestrowana)|\b(tato )?dom[ée]na (je|byla) (na prodej|zaparkov[aá]na|zaregistrov[aá]na)|\bez a domain (eladó|parkolt|foglalt)|\bacest domeniu este (de v[âa]nzare|parcat|[îi]nregistrat)|\b(bu )?alan ad[ıi] (sat[ıi]l[ıi]k|park|tescil)`)

// offersElsewhere matches those in scripts without word boundaries that a pattern recognizes.
var offersElsewhere = lazyregexp.New(`(?i)домен (?:[^.!?]|\.\S){0,40}(продается|продаётся|припаркован|зарегистрирован|выставлен на продажу)|купить (этот )?домен|このドメイン(は|を)[^。]{0,30}(取得|販売|登録|売り|購入)|ドメイン(販売中|パーキング)|(此|该|本)域名[^。]{0,20}(出售|转让|已注册|待售)|域名出售|이 도메인(은|을)[^.]{0,20}(판매|구매|등록)`)

// namedOffer is an offer in a title that names the domain itself: "acme.com is for sale".
var namedOffer = lazyregexp.New(`(?i)^(the (domain )?(name )?)?[\w.-]+\.[a-z]{2,} (is|may be|-|–|\|)? ?(for sale|available for|parked|a premium domain|domain (name )?for sale|steht zum verkauf|zu verkaufen|à vendre|en venta|in vendita|te koop|is available$)`)

// isOffer reports whether a text contains a domain offer.
func isOffer(text string) bool { return offers.MatchString(text) || offersElsewhere.MatchString(text) }

// offersIn is isOffer outside of the brand's name: "Parked by the Sea" on parkedbythesea.com.
func offersIn(a Answer, text string) bool {
	return says(a, offers, text) || says(a, offersElsewhere, text)
}

func parkedSign(a Answer) string {
	p := a.Page
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
	if sign := parkingTrace(a); sign != "" {
		return sign
	}
	named := namedOffer.MatchString(p.Title) && mentions(p.Title, a.Site.Domain)
	if named || (namedOffer.MatchString(p.Title) || offersIn(a, p.Title)) && innerLinks(p) < ownLinks {
		return "title of a domain offer"
	}
	head := strings.Join(append([]string{p.Meta("description", "og:description")}, p.Headings...), ". ")
	namedInHead := slices.ContainsFunc(p.Headings, func(h string) bool { return namedOffer.MatchString(h) && mentions(h, a.Site.Domain) })
	if (namedInHead || offersIn(a, head)) && !speaks(p) {
		return "wording of a domain offer"
	}
	// In running text the offer must be about this domain, or be the only content.
	if offersIn(a, p.Text) && innerLinks(p) < ownLinks && (mentions(p.Text, a.Site.Domain) || p.Words < challengeWords*2 && !speaks(p)) {
		return "wording of a domain offer"
	}
	return ""
}

// parkingTrace recognizes traces of the services that provide parking pages.
func parkingTrace(a Answer) string {
	p := a.Page
	for _, source := range p.Sources {
		host := source.Hostname()
		if i := slices.IndexFunc(parkingHosts, func(h string) bool { return host == h || strings.HasSuffix(host, "."+h) }); i >= 0 && !a.Site.OwnHost(host) {
			return "script of " + parkingHosts[i]
		}
	}
	if s := sourceWith(p, parkingSources); s != "" {
		return "script " + s
	}
	for _, s := range parkingScripts {
		if strings.Contains(p.Script, s) && !speaks(p) {
			return "script of a parking page"
		}
	}
	if hasAdBlockKey(p) {
		return "advertisements for domains"
	}
	return ""
}

// hasAdBlockKey reports whether the document has the key with which parking
// services ask ad blockers to allow their advertisements.
func hasAdBlockKey(p *page.Page) bool {
	if p.Root == nil {
		return false
	}
	for n := p.Root.FirstChild; n != nil; n = n.NextSibling {
		if n.Type == html.ElementNode && n.DataAtom == atom.Html {
			return slices.ContainsFunc(n.Attr, func(x html.Attribute) bool { return x.Key == "data-adblockkey" })
		}
	}
	return false
}

func mentions(text, domain string) bool { return strings.Contains(strings.ToLower(text), domain) }
