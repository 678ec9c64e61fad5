package crawl

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/classify"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/company"
	"letterhead/workers/crawl/page"
)

const (
	// maxFurther limits the pages that are read in addition to the home page,
	// and maxTried those that are requested.
	maxFurther = 2
	maxTried   = 3
	// furtherTime is the minimum remaining time for one of them, and its
	// timeout.
	furtherTime = 1500 * time.Millisecond
	maxPageTime = 4 * time.Second
	// maxFurtherDepth limits the segments of the path: /en/company/about-us,
	// not an article about something.
	maxFurtherDepth = 4
	// maxLinkWords limits the text of a link to such a page: a longer one is a
	// headline.
	maxLinkWords = 5
)

// topic is the topic of a further page.
type topic int

const (
	about   topic = iota // who they are
	imprint              // where they are and since when; required by law in several countries
	contact              // where they are, if there is no imprint
	press                // names and descriptions for the press
)

// topics are the words of paths and link texts, in the languages of most home pages.
var topics = []struct {
	topic topic
	words *regexp.Regexp
}{
	{imprint, regexp.MustCompile(`(?i)^(impressum|imprint|legal([-_ ](notice|information|info|disclosure))?|anbieterkennzeichnung|mentions[-_ ]?l[ée]gales|informations[-_ ]l[ée]gales|aviso[-_ ]?legal|informaci[oó]n[-_ ]legal|note[-_ ]?legali|colofon|kolofon|impresszum|редакция|реквизиты|특정상거래법|特定商取引法に基づく表記|特定商取引法|tokushoho)$`)},
	{contact, regexp.MustCompile(`(?i)^(contact([-_ ](us|info|details))?|contacts?|kontakt|contatti|contacto|contato|contactez[-_ ]nous|nous[-_ ]contacter|yhteystiedot|kapcsolat|ileti[sş]im|контакты|контакти|お問い合わせ|联系我们|聯絡我們|연락처|visit[-_ ]us|find[-_ ]us|locations?)$`)},
	{about, regexp.MustCompile(`(?i)^(about([-_ ](us|the[-_ ]company|our[-_ ]company))?|our[-_ ]story|who[-_ ]we[-_ ]are|company([-_ ](info|profile|overview))?|the[-_ ]company|our[-_ ]company|corporate|[üu]ber[-_ ]uns|ueber[-_ ]uns|unternehmen|firma|wir[-_ ]über[-_ ]uns|[àa][-_ ]propos|qui[-_ ]sommes[-_ ]nous|entreprise|notre[-_ ]histoire|sobre([-_ ](nosotros|n[oó]s|mi))?|quienes[-_ ]somos|qui[ée]nes[-_ ]somos|empresa|quem[-_ ]somos|chi[-_ ]siamo|azienda|over[-_ ]ons|om[-_ ]oss|om[-_ ]os|om|meist[äa]|tietoa|o[-_ ]nas|o[-_ ]firmie|o[-_ ]spole[cč]nosti|rolunk|hakkimizda|hakkımızda|kurumsal|despre([-_ ]noi)?|о[-_ ]нас|о[-_ ]компании|про[-_ ]нас|会社概要|会社情報|企業情報|关于我们|公司简介|關於我們|회사소개)$`)},
	{press, regexp.MustCompile(`(?i)^(brand([-_ ](assets|guidelines|resources|kit))?|press([-_ ](kit|room|center|centre))?|media[-_ ]kit|newsroom|presse|prensa|stampa|pers)$`)},
}

// further returns the task that reads other pages of the site if the home
// page leaves fields open: one after the other, with a gap between them.
func (r *run) further(ctx context.Context, f *found, h *home) []task {
	wanted := missing(f.input)
	if len(wanted) == 0 || h.at.IsZero() {
		return nil
	}
	links := r.furtherLinks(h.page, wanted)
	if len(links) == 0 {
		return nil
	}
	return []task{{host: h.page.URL.Hostname(), run: func(func()) {
		last, read := h.at, map[topic]bool{}
		for _, l := range links[:min(len(links), maxTried)] {
			if l.topic == contact && read[imprint] || l.topic == press && len(read) > 0 || !r.waitUntil(ctx, last.Add(r.gap())) {
				continue
			}
			last = time.Now()
			if p := r.otherPage(ctx, l.to); p != nil {
				read[l.topic] = true
				f.input.More = append(f.input.More, p)
			}
			if len(read) == maxFurther {
				return
			}
		}
	}}}
}

// missing lists the topics of further pages to read, the most useful first;
// none if the home page is sufficient.
func missing(in extract.Input) []topic {
	_, described := extract.Description(in)
	name, _ := extract.Name(in)
	known, _ := company.Decide(in)
	var out []topic
	if !described || name.Method == extract.FromDomain || name.Value == "" || known == nil || known.FoundedYear == nil {
		out = append(out, about)
	}
	if known == nil || known.Location == nil || len(extract.Links(in).Value) == 0 {
		out = append(out, imprint)
	}
	return out
}

// furtherLink leads to a page of a topic.
type furtherLink struct {
	topic topic
	to    *url.URL
}

// furtherLinks lists the first link to a page of each topic, the wanted ones
// first: an imprint may replace a missing about page.
func (r *run) furtherLinks(p *page.Page, wanted []topic) []furtherLink {
	best := map[topic]*url.URL{}
	for _, a := range p.Anchors {
		if !r.isFurther(p, a) {
			continue
		}
		if t, ok := topicOf(a); ok && best[t] == nil {
			best[t] = a.URL
		}
	}
	var out []furtherLink
	listed := map[topic]bool{}
	for _, t := range slices.Concat(wanted, []topic{about, imprint, contact, press}) {
		if best[t] != nil && !listed[t] {
			out = append(out, furtherLink{t, best[t]})
		}
		listed[t] = true
	}
	return out
}

// isFurther reports whether a link leads to another page of the same host,
// whose rules are known.
func (r *run) isFurther(p *page.Page, a page.Anchor) bool {
	u := a.URL
	if u == nil || p.URL == nil || u.Host != p.URL.Host || u.RawQuery != "" || strings.Trim(u.Path, "/") == "" || u.Path == p.URL.Path {
		return false
	}
	return strings.Count(strings.Trim(u.Path, "/"), "/") < maxFurtherDepth && r.mayFetchPage(u)
}

// topicOf determines the topic of a link by the last segment of its path, or
// else by its text.
func topicOf(a page.Anchor) (topic, bool) {
	last := strings.Trim(a.URL.Path, "/")
	last = last[strings.LastIndexByte(last, '/')+1:]
	last, _, _ = strings.Cut(last, ".")           // about.html
	last = strings.TrimLeft(last, "0123456789-_") // 2-about-us
	text := strings.Trim(a.Text, " .…»›→>:")
	for _, t := range topics {
		if t.words.MatchString(last) {
			return t.topic, true
		}
	}
	if len(strings.Fields(text)) > maxLinkWords {
		return 0, false
	}
	for _, t := range topics {
		if t.words.MatchString(text) {
			return t.topic, true
		}
	}
	return 0, false
}

// waitUntil waits until a moment. It returns false if there is not enough time
// for a page after it.
func (r *run) waitUntil(ctx context.Context, at time.Time) bool {
	deadline, ok := ctx.Deadline()
	if wait := time.Until(at); wait > maxCrawlDelay || ok && deadline.Sub(at) < furtherTime || ok && time.Until(deadline) < furtherTime {
		return false
	}
	return delay.For(ctx, time.Until(at)) == nil
}

// otherPage fetches one page, or returns nil if it is not one of the site's
// own.
func (r *run) otherPage(ctx context.Context, u *url.URL) *page.Page {
	if r.files.Add(1) > maxFiles {
		return nil
	}
	response, _ := r.session.Get(ctx, u.String(), safehttp.Limits{Body: page.MaxBytes, Time: maxPageTime}, htmlHeader)
	if response == nil || response.StatusCode != http.StatusOK || !r.site.Own(response.FinalURL) || strings.Trim(response.FinalURL.Path, "/") == "" || r.allowed(response.FinalURL) != nil {
		return nil // redirected to the home page, to another site, or to a forbidden path
	}
	share := r.crawler.pages.Share(pageCost(response.Body))
	if !share.TryAcquire() {
		return nil // waiting here would keep the home page in memory
	}
	defer share.Release() // little of it is used
	p := page.Parse(response.Body, response.Header.Get("Content-Type"), response.FinalURL, r.site)
	verdict := classify.Home(classify.Answer{Status: response.StatusCode, Header: response.Header, Page: p, Site: r.site, Bytes: len(response.Body)})
	switch verdict.Kind {
	case classify.Usable, classify.Shell, classify.Gate: // short pages look like these
		return p
	}
	return nil
}
