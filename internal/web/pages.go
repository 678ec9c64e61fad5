package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"letterhead/internal/imaging"
)

// Policy is the Content-Security-Policy of the pages: everything comes from files of their server.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Protect sets the headers of every page and form. Browsers then do not store it, send no referrer from it, and give
// windows of other sites no access to it.
func Protect(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", Policy)
}

// Cookie is the cookie of a session. Name and Path are those over plain http.
type Cookie struct {
	Name, Path string
	TLS        bool // the browser's connection is encrypted
}

// name returns the name that the browser sees. A cookie with the prefix can be set only by this host, over https and
// for all of its paths (RFC 6265bis, section 4.1.3.2), so no other host of the domain can replace the session by its
// own.
func (c Cookie) name() string {
	if c.TLS {
		return "__Host-" + c.Name
	}
	return c.Name
}

// MaxToken limits the length of tokens that are looked up, and of pages that a cookie remembers: a look-up of the
// longest domain has less.
const MaxToken = 400

// Token returns the token of the session; empty if there is none.
func (c Cookie) Token(r *http.Request) string {
	cookie, err := r.Cookie(c.name())
	if err != nil || len(cookie.Value) > MaxToken {
		return ""
	}
	return cookie.Value
}

// Set sets the token of a session; an empty one deletes the cookie. The browser also sends the cookie when it comes
// from a page of another site, such as a payment processor's.
func (c Cookie) Set(w http.ResponseWriter, token string, expires time.Time) {
	cookie := &http.Cookie{
		Name: c.name(), Value: token, Path: c.Path, Expires: expires,
		HttpOnly: true, Secure: c.TLS, SameSite: http.SameSiteLaxMode,
	}
	if c.TLS {
		cookie.Path = "/"
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// Page is an exchange with a browser, which loads a page or sends a form.
type Page struct {
	Exchange
	Request *http.Request
	Ctx     context.Context // of the work; it ends when the client leaves
	Token   string          // of the session, from the cookie; empty if there is none
	Form    url.Values      // of a POST
	// Protection checks where a form comes from.
	Protection *http.CrossOriginProtection
}

// ReadForm reads the form of a POST, which may have max bytes.
func (x *Page) ReadForm(max int64) error {
	if x.Request.Method != http.MethodPost {
		return nil
	}
	x.Request.Body = http.MaxBytesReader(x.ResponseWriter, x.Request.Body, max)
	err := x.Request.ParseForm()
	x.Form = x.Request.PostForm
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return &Problem{Status: http.StatusRequestEntityTooLarge, Title: "The form is too large",
			Text: "It may have " + strconv.FormatInt(max>>10, 10) + " KiB. Go back and shorten what you typed."}
	case err != nil:
		return &Problem{Status: http.StatusBadRequest, Title: "The form did not arrive",
			Text: "It was cut off or is not encoded correctly. Go back and send it again."}
	}
	return nil
}

// FromOwnPage reports whether a form comes from a page of its own site.
//
// Browsers say where a request comes from, in Sec-Fetch-Site or else in Origin. Over plain HTTP to another machine they
// do not: they leave the former out, and the latter is null, because the pages send no referrer. Then the form must
// have the token of its session, which pages of other sites cannot read.
func (x *Page) FromOwnPage() bool {
	if x.Protection.Check(x.Request) == nil {
		return true
	}
	own := []byte(FormToken(x.Token))
	return !x.FromOtherSite() && x.Token != "" && subtle.ConstantTimeCompare([]byte(x.Form.Get("form")), own) == 1
}

// FromOtherSite reports whether the browser says that a form comes from another site. Such a form of a visitor would
// sign the visitor in with a link of its maker's.
func (x *Page) FromOtherSite() bool {
	h := x.Request.Header
	return x.Protection.Check(x.Request) != nil && (h.Get("Sec-Fetch-Site") != "" || h.Get("Origin") != "null")
}

// FormToken returns the token of the forms of a session. It does not reveal that of the session.
func FormToken(session string) string {
	sum := sha256.Sum256([]byte("form " + session))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Redirect leads the browser to a page with GET.
func (x *Page) Redirect(location string) error {
	x.Header().Set("Location", location)
	x.WriteHeader(http.StatusSeeOther)
	return nil
}

// Show answers with a page of a template.
func (x *Page) Show(status int, t *template.Template, data any) error {
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, "page", data); err != nil {
		return fmt.Errorf("render the page %s: %w", t.Name(), err)
	}
	SendPage(x, status, HTML[0], body.Bytes())
	return nil
}

// Left reports whether the client has left, or has only closed its sending side and would read an empty 200.
func (x *Page) Left() bool { return x.Request.Context().Err() != nil }

// Fail answers with a problem, whose page show sends. realm is that of sign-ins.
func (x *Page) Fail(p *Problem, realm string, logger *slog.Logger, show func() error) {
	h := x.Header()
	switch p.Status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "5")
	case http.StatusTooManyRequests:
		h.Set("Retry-After", "60")
	case http.StatusUnauthorized:
		// RFC 9110, section 15.5.2, requires the header; browsers ignore it.
		h.Set("WWW-Authenticate", `Cookie realm="`+realm+`"`)
		if x.Request.Header.Get("HX-Request") != "" {
			h.Set("HX-Refresh", "true") // shows the page instead of a part of it
		}
	}
	if err := show(); err != nil {
		logger.ErrorContext(x.Ctx, "render the page of a problem", "request_id", x.ID, "error", err)
		SendPage(x, http.StatusInternalServerError, Text[0], []byte(p.Title+". "+p.Text+"\n"))
	}
}

// The grounds of the pages' styles with which links have the least contrast, in light and in dark mode.
var lightGround, darkGround = imaging.RGB{R: 0xea, G: 0xf2, B: 0xff}, imaging.RGB{R: 0x16, G: 0x23, B: 0x38}

// Marks returns the rules that give links and buttons a color, where necessary darkened or lightened to be read.
func Marks(c imaging.RGB) template.CSS {
	return template.CSS(fmt.Sprintf(":root{--mark:%s}@media (prefers-color-scheme:dark){:root{--mark:%s}}",
		c.ReadableOn(lightGround).Hex(), c.ReadableOn(darkGround).Hex()))
}
