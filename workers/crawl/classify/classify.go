// Package classify determines the kind of response for a home page: the brand's
// own page, a refusal, a parking page, a page that is not set up, or nothing.
//
// The weight of a sign depends on its reliability. A refusing status or a header specific to challenges decides alone.
// Words and scripts that also occur on good pages (a captcha widget, a bot detector's cookie) count only if the page
// has no content of its owner.
package classify

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("classify")

// Kind is a kind of response.
type Kind int

const (
	Usable  Kind = iota // the brand's own page
	Blocked             // the site responded and refused to be crawled
	// Limited: the site asked to retry later (429). After a second one the site is Blocked.
	Limited
	Failed      // the server failed (5xx)
	Parked      // the domain is for sale, or carries only advertisements
	Placeholder // the default page of a web server or a builder, or "coming soon"
	Missing     // there is no page (404, an empty response, or not HTML)
	// Shell: an app that is not yet rendered. Its head is the brand's own.
	Shell
	Gate // a page of the brand in front of its content: a login, a question for the age
)

func (k Kind) String() string {
	return [...]string{"usable", "blocked", "limited", "failed", "parked", "placeholder", "missing", "shell", "gate"}[k]
}

// Answer is the response for a home page.
type Answer struct {
	Status int
	Header http.Header
	Page   *page.Page // parsed from the body, whatever its type
	Site   site.Site
	Bytes  int  // of the body
	Drawn  bool // set if a browser has run the page's scripts
}

// Verdict is a kind and the sign on which it is based.
type Verdict struct {
	Kind Kind
	Sign string
}

// Limits of pages without content of their owner.
const (
	challengeWords   = 60  // a challenge page has fewer words
	parkedWords      = 250 // a parking page has fewer, including its "related searches"
	placeholderWords = 150
)

// Home classifies the response for a home page.
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
	for _, test := range []struct {
		kind Kind
		sign func(Answer) string
	}{
		{Parked, parkedSign}, {Placeholder, placeholderSign}, {Placeholder, softwareSign}, {Blocked, geoSign},
		{Blocked, wallSign}, {Gate, gateSign}, {Shell, func(a Answer) string { return shellSign(a.Page) }},
	} {
		if sign := test.sign(a); sign != "" {
			return Verdict{test.kind, sign}
		}
	}
	return Verdict{Usable, ""}
}

func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("status %d %s", code, http.StatusText(code)))
}

// refusals are statuses of refusals of a GET for a home page. 405, 406, 412 and 418 come from firewalls (Aliyun,
// ModSecurity, Kasada and others), 420 and 430 from limits, 444 and 493 from gateways; 999 is specific to LinkedIn.
var refusals = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
	http.StatusProxyAuthRequired, http.StatusPreconditionFailed, http.StatusTeapot, 420, 430, 444,
	http.StatusUnavailableForLegalReasons, 493, 999,
}

// isHTML reports whether a response is a page: by its type, or without one by its content.
func isHTML(a Answer) bool {
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || kind == "" || kind == "application/octet-stream" || kind == "text/plain" {
		return a.Page.Title != "" || len(a.Page.Metas) > 0
	}
	return kind == "text/html" || kind == "application/xhtml+xml" ||
		(kind == "application/xml" || kind == "text/xml") && a.Page.Title != ""
}

// Limits of pages in front of the brand's own.
const (
	gateWords   = 120 // a login or a question for the age has fewer words
	shellImages = 3   // an app that is not yet rendered shows no images
)

// logIns are segments of paths of login pages, and logInTitles the beginnings of their titles.
var (
	logIns      = lazyregexp.New(`(?i)(^|[/_.-])(` + tables.Any("logIns") + `)([/_.?-]|$)`)
	logInTitles = lazyregexp.New(`(?i)^(` + tables.Any("logInTitles") +
		`)\b|^(вход|войти|авторизация|ログイン|登录|登入|로그인)|` +
		`[-–|:·] (log ?in|sign ?in|anmelden|connexion|login|iniciar sesi[oó]n|accedi|inloggen)$`)
)

var ages = lazyregexp.New(`(?i)` + tables.Any("ages")) // matches questions for the visitor's age

// gateSign recognizes a page of the brand in front of its content.
func gateSign(a Answer) string {
	p := a.Page
	if p.Words >= gateWords || innerLinks(p) >= 2*ownLinks {
		return ""
	}
	path := ""
	if p.URL != nil {
		path = p.URL.Path
	}
	switch text := p.Title + ". " + p.Text; {
	case p.Password, logIns.MatchString(path), logInTitles.MatchString(p.Title) && p.Forms > 0:
		return "log-in"
	case ages.MatchString(text):
		return "question for the age"
	}
	return ""
}

// Unrendered reports whether a page is an app that its scripts have yet to draw, whatever its title says.
func Unrendered(p *page.Page) bool { return shellSign(p) != "" }

// shellSign recognizes an app that is not yet rendered: scripts, almost no text, and no other content.
func shellSign(p *page.Page) string {
	runs := len(p.Sources) > 0 || strings.TrimSpace(p.Script) != ""
	if runs && p.Shell() && len(p.Headings) == 0 && innerLinks(p) < ownLinks && len(p.Images) < shellImages {
		return "app shell"
	}
	return ""
}
