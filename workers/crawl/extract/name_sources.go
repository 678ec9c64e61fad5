package extract

import (
	"cmp"
	"iter"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Limits of the search for names.
const (
	maxHomeTexts  = 3      // texts of links to the front page
	maxHomeImages = 12     // limits the images in links to the front page that are searched for a name
	maxCopyrights = 4      // copyright lines
	maxLine       = 400    // bytes of a copyright line
	maxWritten    = 60_000 // words that are compared with the domain
	maxDenseName  = 6      // characters of a short name in a script without spaces
)

// collector collects the candidates of one page.
type collector struct {
	in     Input
	source string
	factor float64
	out    []nameCandidate
}

func (c *collector) add(text, method string, base float64) {
	fit := 0.0
	if m := inBrackets.FindStringSubmatch(page.Clean(text, maxNameRunes)); m != nil && !hasLatin(m[1]) {
		fit = c.in.fit(m[2]) // the domain follows a name in another script
	}
	text = unescaped(repaired(text))
	if generic(text) && c.in.fit(text) < exactFit { // "My Company", before its legal form is removed
		return
	}
	text = tidyName(fitting(text, c.in), c.in)
	if text == "" || c.in.misread(text) ||
		packageName.MatchString(text) && c.in.fit(text) < affixFit ||
		generic(text) && c.in.fit(text) < exactFit || hostNames[Folded(text)] && c.in.fit(text) < StrongFit {
		return
	}
	c.out = append(c.out, nameCandidate{text: text, method: method, source: c.source, base: base * c.factor,
		fit: max(fit, c.in.nameFit(text))})
}

// nameCandidates lists every acceptable name once per place.
func nameCandidates(in Input) []nameCandidate {
	c := &collector{in: in, source: in.PageURL(), factor: 1}
	c.page(in.Page)
	c.title(in.Page)
	if in.Manifest != nil {
		c.source = in.ManifestURL()
		c.add(in.Manifest.Name, "manifest name", manifestBase)
		c.add(in.Manifest.ShortName, "manifest short_name", manifestBase-2)
	}
	for _, p := range in.More {
		c.source, c.factor = "", moreFactor
		if p.URL != nil {
			c.source = p.URL.String()
		}
		c.page(p)
	}
	if in.Known != nil && in.Known.Name != nil {
		c.source, c.factor = "data set", 1
		c.add(*in.Known.Name, "data set", knownBase)
	}
	c.source, c.factor = in.PageURL(), 1
	written := in.written(Folded(in.Site.Label))
	if strings.ContainsRune(written, ' ') {
		c.add(written, "page text", writtenBase)
	}
	// The domain always gives a name, however weak.
	if label := in.Site.Label; label != "" {
		if written == "" || strings.ContainsRune(written, ' ') {
			written = titleCase(label)
		}
		c.out = append(c.out, nameCandidate{text: page.Clean(written, maxNameRunes), method: FromDomain,
			source: c.source, base: labelBase - fitWeight, fit: exactFit})
	}
	return c.out
}

// page adds the declarations and visible names of a page, except its title.
func (c *collector) page(p *page.Page) {
	in := c.in
	if owner := p.Data.Owner(in.Site, in.Fits); owner != nil {
		base := ownerBase
		if owner.Is("Person") && c.namedOtherwise(owner.Text("name"), p) {
			base = personPlace
		}
		c.add(owner.Text("name"), "json-ld organization", base)
		c.add(owner.Text("legalName"), "json-ld legal name", titleBase)
		c.add(owner.Text("alternateName"), "json-ld alternate name", titleBase)
	}
	if w := p.Data.WebSite(in.Site); w != nil {
		c.add(w.Text("name"), "json-ld website", websiteBase)
		c.add(w.Text("alternateName"), "json-ld alternate name", titleBase)
	}
	for _, o := range p.Data.Publishers(in.Site, in.near) {
		n := len(c.out)
		base := publisherBase
		if o.Is("Person") && c.namedOtherwise(o.Text("name"), p) {
			base = personPlace
		}
		c.add(o.Text("name"), "json-ld publisher", base)
		if len(c.out) > n &&
			slices.ContainsFunc(o.URLs("url"), func(text string) bool { return in.near(p.Resolve(text)) }) {
			// It names the requested host as its own domain: as good as a name that fits.
			c.out[n].base, c.out[n].fit = ownerBase*c.factor, max(c.out[n].fit, affixFit)
		}
	}
	c.add(p.Meta("og:site_name"), "og:site_name", siteNameBase)
	c.add(p.Meta("application-name"), "application-name", appBase)
	c.add(p.Meta("apple-mobile-web-app-title"), "apple-mobile-web-app-title", appBase)
	c.add(p.Meta("al:ios:app_name", "al:android:app_name", "twitter:app:name:iphone", "twitter:app:name:googleplay",
		"twitter:app:name:ipad"), "app link", manifestBase)
	c.add(p.Meta("publisher", "dc.publisher", "dcterms.publisher"), "publisher meta", manifestBase-2)
	for _, key := range []string{"author", "copyright", "dc.creator"} {
		if v := copyrightOwner(p.Meta(key)); in.fit(v) >= wordFit {
			c.add(v, key+" meta", authorBase)
		}
	}
	handle, ok := handleOf(p.Meta("twitter:site"))
	if ok && in.fit(handle) >= exactFit && handle != strings.ToLower(handle) && !strings.ContainsRune(handle, '_') {
		c.add(handle, "twitter:site", handleBase)
	}
	tree := inTree(p)
	for _, title := range tree.FeedTitles {
		c.add(title, "feed title", feedBase)
	}
	c.homeLinks(p)
	for _, line := range tree.CopyrightLines {
		owner := copyrightOwner(line)
		if short := holding.ReplaceAllString(owner, ""); in.fit(short) >= exactFit && !dangling.MatchString(short) {
			owner = short
		}
		if in.fit(owner) > 0 {
			c.add(owner, "copyright line", copyrightBase)
		}
	}
}

// namedOtherwise reports whether the site declares a name that is not its owner's: the owner is its author.
func (c *collector) namedOtherwise(owner string, p *page.Page) bool {
	names := []string{p.Meta("og:site_name")}
	if w := p.Data.WebSite(c.in.Site); w != nil {
		names = append(names, w.Text("name"))
	}
	return slices.ContainsFunc(names,
		func(name string) bool { return Folded(name) != "" && Folded(name) != Folded(owner) })
}

// inTree walks the tree of a page once.
func inTree(p *page.Page) *page.InTree {
	tree := cmp.Or(p.InTree, new(page.InTree))
	tree.Do(func() { tree.FeedTitles, tree.CopyrightLines = feedTitles(p.Root), copyrightLines(p.Root) })
	return tree
}

// feedWords matches the words in the title of a feed that are not the site's name.
var feedWords = lazyregexp.New(`(?i)^(?:(?:rss|atom|json)(?: ?2\.0)?[ -]?)?(?:news ?)?feeds?\s(?:for|of|von|de|di|du|da|from)\s|\s*(?:[»›|:–—-]\s*)?\b(?:(?:all |the )?(?:blog |posts |comments |news |latest |main |full )*(?:rss|atom|feeds?|newsfeed|flux|fil rss|json feed)\b.*|comments|канал|лента)\s*$`)

const maxFeeds = 3 // limits the feeds whose titles are read

// feedTitles reads the titles of the site's feeds: "Acme » Feed".
func feedTitles(root *html.Node) []string {
	var out []string
	visit(root, func(n *html.Node) bool {
		if n.Type != html.ElementNode || n.Data != "link" || len(out) >= maxFeeds {
			return len(out) < maxFeeds
		}
		kind := strings.ToLower(page.Attr(n, "type"))
		if !strings.Contains(strings.ToLower(page.Attr(n, "rel")), "alternate") ||
			!strings.Contains(kind, "rss") && !strings.Contains(kind, "atom") && !strings.Contains(kind, "feed+json") {
			return true
		}
		title := page.Clean(page.Attr(n, "title"), page.MaxValueRunes)
		if name := feedWords.ReplaceAllString(title, ""); name != title && name != "" {
			out = append(out, name)
		}
		return true
	})
	return out
}

// homeLinks adds the content of links to the front page: an image's alt text, or words.
func (c *collector) homeLinks(p *page.Page) {
	images := maxHomeImages
	for _, im := range p.Images {
		if im.Home && !im.Excluded && (im.Zone != page.Body || mentionsLogo(im)) && images > 0 {
			images--
			if !isAddress(strings.TrimSpace(im.Alt)) || c.in.fit(im.Alt) >= exactFit {
				c.add(withoutLogoWords(im.Alt), "logo alt", altBase)
			}
			c.add(withoutLogoWords(im.LinkLabel), "home link label", altBase)
		}
	}
	left := maxHomeTexts
	for i, a := range p.Anchors {
		if a.URL == nil || a.Text == "" || left == 0 || a.Zone == page.Footer ||
			a.Zone == page.Body && i > maxHomeTexts {
			continue
		}
		if p.URL != nil && a.URL.Hostname() == p.URL.Hostname() && strings.Trim(a.URL.Path, "/") == "" &&
			a.URL.RawQuery == "" {
			c.add(withoutLogoWords(a.Text), "home link text", homeTextBase)
			left--
		}
	}
}

// title adds the parts of the title, the heading and the shared title of the home page.
func (c *collector) title(p *page.Page) {
	segments := titleSegments(p.Title)
	for i, segment := range segments {
		base := titleBase
		short := nameWords(segment) <= shortWords && !(Dense(segment) && utf8.RuneCountInString(segment) > maxDenseName)
		switch {
		case len(segments) == 1 && short:
			base += shortBase
		case i == len(segments)-1 && (c.in.Inner() || short), i == 0 && short && !c.in.Inner():
			base += endBase
		}
		c.add(segment, "title", base)
	}
	for i, h := range p.Headings {
		if i == 0 || c.in.fit(h) >= wordFit {
			c.add(h, "heading", headingBase)
		}
	}
	for _, segment := range titleSegments(p.Meta("og:title", "twitter:title")) {
		c.add(segment, "og:title", titleBase-2)
	}
}

// owners lists the owners of the site according to the page's linked data, and
// the publishers that claim the requested host.
func (in Input) owners() []*linkeddata.Object {
	out := in.Page.Data.Owners(in.Site, in.fit)
	if w := in.Page.Data.WebSite(in.Site); w != nil {
		out = append(out, w)
	}
	for _, o := range in.Page.Data.Publishers(in.Site, in.near) {
		if !slices.Contains(out, o) && (in.fit(o.Text("name")) >= StrongFit ||
			slices.ContainsFunc(o.URLs("url"), func(text string) bool { return in.near(in.Page.Resolve(text)) })) {
			out = append(out, o)
		}
	}
	return out
}

// near reports whether a URL belongs to the requested host, if a publication on a shared domain also has its own
// domain: map.acme.com and acme.publisher.example.
func (in Input) near(u *url.URL) bool {
	if in.Page.URL == nil || u == nil {
		return false
	}
	sub, _, _ := strings.Cut(in.Page.URL.Hostname(), ".")
	return Folded(sub) != "" && sub != in.Site.Label && !in.Site.Own(u) &&
		Folded(sub) == Folded(site.New(site.Registrable(u.Hostname())).Label)
}

// handleOf reads a twitter:site value, which may be a whole URL.
func handleOf(value string) (string, bool) {
	value = strings.TrimPrefix(strings.TrimSpace(value), "@")
	if strings.Contains(value, "/") {
		u, err := url.Parse(value)
		if err != nil {
			return "", false
		}
		name, canonical, ok := Profile(u)
		if !ok || name != "twitter" {
			return "", false
		}
		value = lastPart(canonical)
	}
	return value, handle.MatchString(value)
}

// written returns the page's spelling of the words in a folded text, with capitals if it ever uses them: Business Today
// for businesstoday, and Büro Lehm for buerolehm. It returns "" if the page does not contain them.
func (in Input) written(label string) string {
	if len(label) < minCommon || genericNames[label] {
		return ""
	}
	count := map[string]int{}
	words := 0
	look := func(text string) {
		if words += len(strings.Fields(text)); words > maxWritten {
			return
		}
		for spelling := range spellings(text, label, Folded) {
			count[spelling]++
		}
		if umlauts.Replace(text) == text {
			return
		}
		for spelling := range spellings(text, label, func(w string) string { return Folded(umlauts.Replace(w)) }) {
			if umlauts.Replace(spelling) != spelling {
				count[spelling]++
			}
		}
	}
	look(in.Page.Title)
	look(in.Page.Meta("og:description", "description"))
	look(in.Page.Text)
	for _, im := range in.Page.Images {
		look(im.Alt)
	}
	for _, a := range in.Page.Anchors {
		look(a.Text)
	}
	best := ""
	for spelling, n := range count {
		first, _ := utf8.DecodeRuneInString(spelling)
		if unicode.IsLower(first) && strings.ContainsRune(spelling, ' ') || spelling == strings.ToLower(spelling) ||
			Folded(spelling) != label && Folded(umlauts.Replace(spelling)) != label ||
			strings.ContainsAny(spelling, "@#/:,;!?") {
			continue
		}
		if have := count[best]; best == "" || n > have || n == have && spelling < best {
			best = spelling
		}
	}
	if best == "" || count[strings.ToLower(best)] > count[best] && !strings.ContainsRune(best, ' ') {
		return ""
	}
	if best == strings.ToUpper(best) && strings.ContainsRune(best, ' ') || // the capitals of a menu or headline
		in.misread(best) {
		return ""
	}
	return best
}

// spellings yields the runs of at most maxPieces words in a text that a folded name consists of, without the characters
// around them.
func spellings(text, name string, fold func(word string) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		words := strings.Fields(text)
		words = words[:min(len(words), maxWritten)]
		for i := range words {
			whole := fold(words[i])
			for n := i + 1; whole != "" && strings.HasPrefix(name, whole); n++ {
				if whole == name && !yield(strings.Trim(strings.Join(words[i:n], " "), wrapping)) {
					return
				}
				if whole == name || n == len(words) || n-i == maxPieces || strings.Trim(words[n], outside) == "" {
					break // a dash or a bar separates two texts
				}
				whole += fold(words[n])
			}
		}
	}
}

// The characters around a name in running text, without and with quotation marks.
const (
	outside  = " |-–—·•∙:.,;!?()[]{}"
	wrapping = outside + "\"'“”‘’«»‹›【】「」『』"
)

var (
	copyrightSign = lazyregexp.New(`(?i)©|\(c\)\s*(?:19|20)\d\d|\bcopyright\b`)
	// copyrightHead matches the text before the owner: signs, years, "by".
	copyrightHead = lazyregexp.New(`(?i)^.*?(?:©|\(c\)|copyright)[\s©]*(?:copyright|\(c\)|©)?[\s,.:]*(?:(?:19|20)\d\d)?(?:\s*[-–—]\s*(?:(?:19|20)?\d\d|present|heute|today|now))?[\s,.:|•·–—-]*(?:by\s+|of\s+)?`)
	// copyrightTail matches the end of the owner.
	copyrightTail = lazyregexp.New(`(?i)\s*(?:` + tables.Any("copyrightTail") + `).*$`)
)

// holding matches the additions of the company behind a brand to its name.
var holding = lazyregexp.New(`(?i)(?:\s+(?:` + tables.Any("holding") +
	`))+(?:[, ]+(?:inc|llc|ltd|gmbh|ag|plc|s\.?a)\.?)?$`)

// copyrightOwner returns the owner in a copyright line; it returns other texts unchanged.
func copyrightOwner(line string) string {
	if copyrightSign.MatchString(line) {
		line = copyrightHead.ReplaceAllString(line, "")
	}
	for from := 0; ; {
		m := copyrightTail.FindStringIndex(line[from:])
		if m == nil {
			break
		}
		end := from + m[0]
		if line[end] == '.' {
			if from = end + 1; !sentenceEnds(line[:end], strings.TrimSpace(line[from:])) {
				continue
			}
			end++ // unpunctuated decides about it
		}
		line = line[:end]
		break
	}
	return trimmed(unpunctuated(line))
}

var (
	// initial is an abbreviated word in front of the rest of a name: Dr., St., J., Sp., Gebr.
	initial = lazyregexp.New(`(?i)^(?:` + tables.Any("abbreviation") + `)$|(?:^|[\s.])\pL{1,2}$`)
	// goesOn matches what continues a legal form behind a period: & Co. KG, de C.V., Sp. k.
	goesOn = lazyregexp.New(`(?i)^(?:[&+]|(?-i:\p{Ll})|(?:şti|` + tables.Any("legalForm") + `)(?:[\s.,]|$))`)
	// shortened is the end of a name that a period belongs to: Co., S.A., Sp. k.
	shortened = lazyregexp.New(`(?i)\s(?:` + tables.Any("abbreviation") + `)$|\.\s?\pL$`)
)

// sentenceEnds reports whether a period behind the name of an owner ends it.
func sentenceEnds(owner, rest string) bool {
	isForm := legalForm.MatchString(owner)
	return (isForm || !initial.MatchString(owner)) &&
		!((isForm || abbreviated.MatchString(owner+".")) && goesOn.MatchString(rest))
}

// unpunctuated returns a text without the characters around it, but with the period of an abbreviation.
func unpunctuated(text string) string {
	out := strings.Trim(text, outside)
	if strings.HasPrefix(text[strings.Index(text, out)+len(out):], ".") && shortened.MatchString(out) {
		out += "."
	}
	return out
}

// copyrightLines returns the copyright lines of a document, last first.
func copyrightLines(root *html.Node) []string {
	var lines []*html.Node
	visit(root, func(n *html.Node) bool {
		switch {
		case n.Type == html.ElementNode && (n.Data == "script" || n.Data == "style" || n.Data == "head" ||
			n.Data == "noscript" || n.Data == "article" || n.Data == "figure"):
			return false
		case n.Type == html.TextNode && len(n.Data) < maxLine && mayBeCopyright(n.Data):
			if lines = append(lines, n); len(lines) > maxCopyrights {
				lines = lines[1:]
			}
		}
		return true
	})
	var out []string
	for _, n := range slices.Backward(lines) {
		line := page.Clean(n.Data, maxLine)
		if !copyrightSign.MatchString(line) {
			continue
		}
		if Folded(copyrightOwner(line)) == "" && n.Parent != nil { // the owner is in the next element
			line = page.Clean(innerText(n.Parent, maxLine), maxLine)
		}
		out = append(out, line)
	}
	return out
}

// mayBeCopyright is a fast check that excludes most texts.
func mayBeCopyright(text string) bool {
	return strings.Contains(text, "©") || strings.Contains(text, "(c)") || strings.Contains(text, "(C)") ||
		strings.Contains(text, "opyright") || strings.Contains(text, "OPYRIGHT")
}
