package extract

import (
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// credit matches a text that names the maker of the site, its theme or its images: such a link is the maker's.
var credit = lazyregexp.New(`(?i)(?:^|[^\p{L}])(?:` +
	`(?:site|web\s?site|page|homepage|theme|template|layout|design(?:ed)?(?: (?:&|and) \w+)?|web\s?design|developed|development|made|built|created|crafted|coded|powered|hosted|produced|photos?|photography|photographs?|pictures?|images?|illustrations?|videos?|film|art|branding|marketing|seo|content)\s+(?:by|with|from)\s` +
	`|(?:webdesign|design|gestaltung|gestaltet|umsetzung|umgesetzt|realisierung|realisiert|programmierung|programmiert|entwickelt|erstellt|konzept|fotos?|fotografie|bilder|seite)\s+(?:von|durch|by)\s` +
	`|(?:site|conception|réalisation|réalisé|création|créé|développé|propulsé|photos?|crédits?)\s+(?:par|by)\s` +
	`|(?:sitio|web|página|diseño|diseñado|desarrollado|desarrollo|hecho|creado|realizado|fotos?|fotografía)\s+(?:por|de)\s` +
	`|(?:site|desenvolvido|desenvolvimento|feito|criado|produzido)\s+(?:por|by)\s` +
	`|(?:sito|realizzato|realizzazione|sviluppato|creato|progetto|fotografie?|foto)\s+(?:da|di|by)\s` +
	`|(?:ontwerp|ontworpen|gemaakt|gebouwd|ontwikkeld|website|foto'?s?)\s+(?:door|van)\s` +
	`|(?:utviklet|laget|skapad|byggd|udviklet|lavet|design|foto)\s+(?:av|af)\s` +
	`|(?:projekt|wykonanie|realizacja|tvorba|realizace|izrada|web)\s+(?:przez|od|by)\s` +
	`|(?:дизайн|разработка|создание|сайт|фото)\s+(?:от|студии|студия)\s` +
	`|(?:photos?|photography|photographer|pictures?|images?|illustrations?|design|designer|web\s?design|theme|template|development|credits?|gestaltung|umsetzung|programmierung|konzept|fotos?|fotografie|bilder|bildnachweis|réalisation|conception|création|diseño|desarrollo|fotografía|realizzazione|grafica|ontwerp|realisatie|wykonanie|realizacja|projekt|tvorba|дизайн|разработка|фото)\s*[:©]` +
	`)|^by\s|(?:制作|デザイン|撮影|设计|技术支持)\s*[:：]`)

// Limits of the search around a link.
const (
	maxBefore  = 60 // bytes of the text before a link
	maxParents = 6  // elements above it
)

// personWords are words of class and id around an author's or a member's profiles.
var personWords = []string{"author", "authors", "bio", "byline", "member", "members", "team", "person", "people", "speaker", "speakers", "contributor", "contributors", "staff", "artist", "guest", "testimonial", "testimonials", "autor", "autoren", "auteur", "comment", "comments", "embed", "share", "sharing", "sharedaddy", "addtoany"}

// around describes the text around the links to one URL.
type around struct {
	credited bool // all of them are credits
	personal bool // one of them is among a person's profiles
}

// surroundings examines the text around the links to profiles.
func surroundings(p *page.Page) map[string]around {
	out := map[string]around{}
	left := maxMentions
	visit(p.Root, func(n *html.Node) bool {
		if n.Type != html.ElementNode || n.Data != "a" || left == 0 {
			return left > 0
		}
		u := p.Resolve(page.Attr(n, "href"))
		if _, _, ok := Profile(u); !ok {
			return true
		}
		left--
		key := u.String()
		have, again := out[key]
		credited := credit.MatchString(before(n) + " " + page.Clean(innerText(n, maxLinkWords), maxLinkWords))
		out[key] = around{credited: credited && (!again || have.credited), personal: have.personal || amongPersons(n)}
		return true
	})
	return out
}

// before returns the end of the text before a link in its paragraph.
func before(n *html.Node) string {
	text := ""
	for at := n; at.Parent != nil && (at == n || inlineElements[at.Data]); at = at.Parent {
		for s := at.PrevSibling; s != nil && len(text) < maxBefore; s = s.PrevSibling {
			if s.Type == html.ElementNode && (s.Data == "a" || s.Data == "br") {
				return page.Clean(text, maxLinkWords) // belongs to another link
			}
			text = innerText(s, maxBefore) + text
		}
	}
	text = page.Clean(text, maxLine)
	return strings.ToValidUTF8(text[max(0, len(text)-maxBefore):], "")
}

// inlineElements are elements that may wrap a link within a credit.
var inlineElements = map[string]bool{"span": true, "strong": true, "b": true, "em": true, "i": true, "small": true}

// amongPersons reports whether a link is among the profiles of an author, a member or a guest.
func amongPersons(n *html.Node) bool {
	left := maxParents
	for at := n; at != nil && left > 0; at = at.Parent {
		if at.Data == "body" {
			return false
		}
		left--
		text := page.Attr(at, "class") + " " + page.Attr(at, "id") + " " + page.Attr(at, "rel")
		if at.Data == "article" || slices.ContainsFunc(page.SplitWords(text[:min(len(text), maxClassBytes)]), func(w string) bool { return slices.Contains(personWords, w) }) {
			return true
		}
	}
	return false
}

// otherNetworks matches hosts of networks without a field, and other hosts that are common in a row of profiles.
var otherNetworks = lazyregexp.New(`(?i)^(?:www\.)?(?:t\.me|telegram\.(?:me|org)|wa\.me|(?:api\.|chat\.)?whatsapp\.com|xing\.com|vk\.com|ok\.ru|flickr\.com|tumblr\.com|soundcloud\.com|open\.spotify\.com|spotify\.com|podcasts\.apple\.com|itunes\.apple\.com|mastodon\.[a-z]+|vimeo\.com|twitch\.tv|reddit\.com|snapchat\.com|news\.google\.com|flipboard\.com|feedly\.com|feeds\.feedburner\.com|plus\.google\.com|weibo\.com|line\.me|dailymotion\.com|gab\.com|bitchute\.com|odysee\.com|gettr\.com|rumble\.com|truthsocial\.com|deezer\.com|anchor\.fm|signal\.(?:me|group)|behance\.net|dribbble\.com|houzz\.[a-z]+|quora\.com|slideshare\.net|yelp\.com|tripadvisor\.[a-z]+|bloglovin\.com|kununu\.com|issuu\.com)$`)
