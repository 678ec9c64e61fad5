// Package classify tells what kind of answer a home page is: the brand's own page, a refusal, a parking
// page, a page nobody made yet, or nothing.
//
// A sign counts as much as it can be wrong. A refusing status or a header that only challenges carry
// decides alone. Words and scripts that stand on good pages too (a captcha widget, a bot detector's
// cookie) count only where the page says nothing of its own.
package classify

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Kind is a kind of answer.
type Kind int

// Kinds.
const (
	// Usable is the brand's own page.
	Usable Kind = iota
	// Blocked: the site answered and refused to be crawled.
	Blocked
	// Limited: the site asked to come back later (429). Twice is Blocked.
	Limited
	// Failed: the server could not answer (5xx).
	Failed
	// Parked: the domain is for sale, or carries advertisements only.
	Parked
	// Placeholder: the page of a web server or a builder that nobody has set up, or "coming soon".
	Placeholder
	// Missing: there is no page (404, an empty answer, something that is not HTML).
	Missing
	// Shell: an app that has yet to draw itself. Its head is the brand's own.
	Shell
	// Gate: what stands before the brand's page and is the brand's own: a log-in, a question for the age.
	Gate
)

func (k Kind) String() string {
	return [...]string{"usable", "blocked", "limited", "failed", "parked", "placeholder", "missing", "shell", "gate"}[k]
}

// Answer is what a home page request gave.
type Answer struct {
	Status int
	Header http.Header
	Page   *page.Page // parsed from the body, whatever it was
	Site   site.Site
	Bytes  int // of the body
}

// Verdict is a kind and the sign that gave it away.
type Verdict struct {
	Kind Kind
	Sign string
}

// Limits of pages that say nothing of their own.
const (
	challengeWords   = 60  // a challenge page has fewer words
	parkedWords      = 250 // so has a parking page, with its "related searches"
	placeholderWords = 150
)

// Home tells what kind of answer a home page is.
func Home(a Answer) Verdict {
	if sign := challengeHeader(a.Header); sign != "" {
		return Verdict{Blocked, sign}
	}
	challenge := challengeSign(a)
	switch s := a.Status; {
	case s == http.StatusTooManyRequests:
		return Verdict{Limited, status(s)}
	case slices.Contains(refusals, s):
		return Verdict{Blocked, status(s)}
	case s >= 500 && challenge != "":
		return Verdict{Blocked, challenge}
	case s >= 500:
		return Verdict{Failed, status(s)}
	case s >= 400 && challenge != "":
		return Verdict{Blocked, challenge}
	case s >= 300:
		return Verdict{Missing, status(s)}
	case refuses(a, challenge):
		return Verdict{Blocked, challenge}
	case a.Page.URL != nil && Foreign(a.Page.URL.Hostname(), a.Site.OwnHost):
		return Verdict{Blocked, "log-in at another service"}
	case a.Bytes == 0:
		return Verdict{Missing, "empty body"}
	case !isHTML(a):
		return Verdict{Missing, "not HTML"}
	}
	if sign := parkedSign(a); sign != "" {
		return Verdict{Parked, sign}
	}
	if sign := placeholderSign(a); sign != "" {
		return Verdict{Placeholder, sign}
	}
	if sign := geoSign(a.Page); sign != "" {
		return Verdict{Blocked, sign}
	}
	if sign := gateSign(a.Page); sign != "" {
		return Verdict{Gate, sign}
	}
	if sign := shellSign(a.Page); sign != "" {
		return Verdict{Shell, sign}
	}
	return Verdict{Usable, ""}
}

func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("status %d %s", code, http.StatusText(code)))
}

// refusals are statuses by which a site refuses. 999 is LinkedIn's own.
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusUnavailableForLegalReasons, 999}

// isHTML reports whether an answer can be read as a page: by its type, or without one by its content.
func isHTML(a Answer) bool {
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || kind == "" || kind == "application/octet-stream" || kind == "text/plain" {
		return a.Page.Title != "" || len(a.Page.Metas) > 0
	}
	return kind == "text/html" || kind == "application/xhtml+xml" || (kind == "application/xml" || kind == "text/xml") && a.Page.Title != ""
}
