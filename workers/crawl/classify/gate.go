package classify

import (
	"strings"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

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
