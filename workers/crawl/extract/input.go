package extract

import (
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/css"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/manifest"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Input is the gathered data of one site.
type Input struct {
	Site     site.Site
	Page     *page.Page         // never nil, but may be empty
	Header   http.Header        // of the home page's response, or nil
	Manifest *manifest.Manifest // nil if there is none
	Config   *manifest.Manifest // the browserconfig, or nil
	// More are other pages of the site that were read because the home page
	// left a field open: about, imprint, press. Usually none.
	More  []*page.Page
	Style *css.Cascade         // the cascade of the home page's stylesheets, or nil if none was read
	BIMI  *url.URL             // the URL of the mark in the domain's BIMI record, or nil
	Known *eventschemas.Record // a record from a data set, for comparison and as a fallback, or nil
	Now   time.Time            // the time of the crawl, which bounds plausible years; zero if unknown
	Memo  *Memo                // if set, no other field but More may change; see Once
}

// Memo has what was computed of an input: most decisions need the name, and some are made before and after further
// pages are read. It is not safe for concurrent use.
type Memo struct {
	more int // the number of further pages
	of   map[string]any
}

// Once returns what compute returned for a key and the same pages, or calls it. The result must not be changed.
func Once[T any](in Input, key string, compute func() T) T {
	m := in.Memo
	if m == nil {
		return compute()
	}
	if m.of == nil || m.more != len(in.More) {
		m.more, m.of = len(in.More), map[string]any{}
	}
	out, ok := m.of[key].(T)
	if !ok {
		out = compute()
		m.of[key] = out
	}
	return out
}

// Found is a decision and its source.
type Found[T any] struct {
	Value      T
	Source     string  // the URL it was read from
	Method     string  // the rule, such as og:site_name
	Confidence float64 // 0 to 1
}

// Weighed is one candidate for a field, which explains the decision.
type Weighed struct {
	Field  string // name, description, colors …
	Value  string
	Source string // the URL it was read from
	Method string // the rule that found it
	Score  float64
	Won    bool
	Note   string // why it won or lost, in a few words
}

// PageURL returns the URL of the page, or "" if it is unknown.
func (in Input) PageURL() string {
	if in.Page.URL == nil {
		return ""
	}
	return in.Page.URL.String()
}

// ManifestURL returns the URL of the web app manifest, or of the page if it names none.
func (in Input) ManifestURL() string {
	if in.Page.Manifest == nil {
		return in.PageURL()
	}
	return in.Page.Manifest.String()
}

// owner returns the organization that owns the site according to the page's linked data, or nil.
func (in Input) owner() *linkeddata.Object {
	return in.Page.Data.Owner(in.Site, in.Fits)
}

// OwnerLogos lists the URLs of the owner's logo in the page's linked data, unresolved.
func OwnerLogos(in Input) []string {
	owner := in.owner()
	if owner == nil {
		return nil
	}
	return owner.URLs("logo")
}

// Fits returns how well a name fits the best of the site's domain labels, from 0 to 1.
func (in Input) Fits(name string) float64 {
	best := 0.0
	for i, label := range in.Site.Labels() {
		fit := labelFit(name, label)
		if i > 0 {
			fit *= otherLabelFactor // the requested domain comes first
		}
		best = max(best, fit)
	}
	// A subdomain may be the brand's own: aws of aws.amazon.com.
	if in.Page.URL != nil {
		sub, ok := strings.CutSuffix(strings.TrimPrefix(in.Page.URL.Hostname(), "www."), "."+in.Site.Domain)
		if ok && !strings.Contains(sub, ".") {
			best = max(best, labelFit(name, sub)*otherLabelFactor)
		}
	}
	return best
}

const otherLabelFactor = 0.9

// Round2 rounds to two decimals, to keep noise out of records and evidence.
func Round2(v float64) float64 { return math.Round(v*100) / 100 }
