package extract

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/css"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/manifest"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Input is what was gathered of one site.
type Input struct {
	Site     site.Site
	Page     *page.Page         // never nil; empty when there is none
	Header   http.Header        // of the home page's answer; nil when there is none
	Manifest *manifest.Manifest // nil when there is none
	Config   *manifest.Manifest // the browserconfig; nil when there is none
	// More are other pages of the site that were read because the home page left something open: about,
	// imprint, press. Usually none.
	More []*page.Page
	// Style is the cascade of the home page's stylesheets; nil when none was read.
	Style *css.Cascade
	// BIMI is the address of the mark that the domain's BIMI record names; nil when there is none.
	BIMI *url.URL
	// Known is a record from a data set, to compare with and to fall back on; nil when there is none.
	Known *eventschemas.Record
	// Now is the time of the crawl, which bounds the years that are believed; zero when it is not known.
	Now time.Time
}

// Found is a decision and where it comes from.
type Found[T any] struct {
	Value      T
	Source     string  // the URL it was read from
	Method     string  // the rule, such as og:site_name
	Confidence float64 // 0 to 1
}

// Weighed is one candidate for a field, for those who ask why the winner won.
type Weighed struct {
	Field  string // name, description, colors …
	Value  string
	Source string // the URL it was read from
	Method string // the rule that found it
	Score  float64
	Won    bool
	Note   string // why it won or lost, in a few words
}

// PageURL returns the address of the page, "" when it is not known.
func (in Input) PageURL() string {
	if in.Page.URL == nil {
		return ""
	}
	return in.Page.URL.String()
}

// ManifestURL returns the address of the web app manifest, or of the page when it names none.
func (in Input) ManifestURL() string {
	if in.Page.Manifest == nil {
		return in.PageURL()
	}
	return in.Page.Manifest.String()
}

// owner is the organization that the page's linked data says owns the site, or nil.
func (in Input) owner() *linkeddata.Object {
	if in.Page.Data == nil {
		return nil
	}
	return in.Page.Data.Owner(in.Site, in.Fits)
}

// OwnerLogos lists the addresses of the owner's logo in the page's linked data, as written.
func OwnerLogos(in Input) []string {
	owner := in.owner()
	if owner == nil {
		return nil
	}
	return owner.URLs("logo")
}

// Fits returns how well a name fits the best of the site's domain labels, 0 to 1.
func (in Input) Fits(name string) float64 {
	best := 0.0
	for i, label := range in.Site.Labels() {
		fit := labelFit(name, label)
		if i > 0 {
			fit *= otherLabelFactor // the domain that was asked for comes first
		}
		best = max(best, fit)
	}
	// A subdomain may be the brand's own: aws of aws.amazon.com.
	if in.Page.URL != nil {
		if sub, ok := strings.CutSuffix(strings.TrimPrefix(in.Page.URL.Hostname(), "www."), "."+in.Site.Domain); ok && !strings.Contains(sub, ".") {
			best = max(best, labelFit(name, sub)*otherLabelFactor)
		}
	}
	return best
}

const otherLabelFactor = 0.9
