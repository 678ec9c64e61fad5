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
	logIns      = lazyregexp.New(`(?i)(^|[/_.-])(log-?in|sign-?in|signin|auth|sso|wp-login\.php|anmelden|connexion|acceso|accedi|inloggen|session/new|sign_in|oauth2?|saml)([/_.?-]|$)`)
	logInTitles = lazyregexp.New(`(?i)^(log ?in|sign ?in|log on|sign on|member login|anmelden|anmeldung|einloggen|connexion|se connecter|iniciar sesi[oó]n|acceder|acceso|accedi|login|entrar|inloggen|logga in|log ind|logg inn|zaloguj|logowanie|p[rř]ihl[aá][sš]en[ií]|bejelentkez[eé]s|giri[sş]|autentificare)\b|^(вход|войти|авторизация|ログイン|登录|登入|로그인)|[-–|:·] (log ?in|sign ?in|anmelden|connexion|login|iniciar sesi[oó]n|accedi|inloggen)$`)
)

// ages matches questions for the visitor's age.
var ages = lazyregexp.New(`(?i)\b(are you|you must be|must be|you are|i am|i'm|confirm (that )?you are|yes,? i am) (at least |over |above |older than |aged? )?(16|18|19|20|21)\b|\b(of )?legal (drinking|smoking|purchase|vaping|gambling)? ?age\b|\bage (verification|gate|check|confirmation)\b|\b(enter|provide|what is) your (date of birth|birth ?date|birth ?day|year of birth|age)\b|\bbist du (schon |bereits |über |mindestens )*(16|18)|\bsind sie (schon |bereits |über |mindestens )*(16|18|volljährig)|\bavez-vous (plus de |au moins )?(18|l'âge légal)|\b[¿]?eres mayor de (edad|18)|\bhai (più di |almeno |compiuto )?18 anni|\btem mais de 18|\bben je (ouder dan |minimaal )?18|\bär du (över )?(18|20)|\ber du over 18|\bczy masz (ukończone )?18|вам (уже )?(есть |исполнилось )?18|20歳以上|已满18|만 ?19세`)

// gateSign recognizes a page of the brand in front of its content.
func gateSign(p *page.Page) string {
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
