package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/dashboard/audit"
	"letterhead/domain/account"
	"letterhead/domain/text"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/web"
	"letterhead/operations"
	"letterhead/projections/keys"
)

const (
	// maxKeyName limits the name of a key, in characters.
	maxKeyName = 100
	// maxEnded limits the revoked and expired keys that are listed, the latest first.
	maxEnded = 50
)

// keysView is the data of the page of keys.
type keysView struct {
	Valid, Ended []audit.Key
	MoreEnded    int // that are not listed
	Limits       map[string]account.KeyLimit
	Form         keyForm
	Done         string // a sentence about the action that led to the page
}

// keyForm is the form for a new key as it was filled in.
type keyForm struct {
	ID, Name, Kind, Expires, Origins string
	Scopes                           []string
	Problems                         map[string]string // sentences for its fields, by their names
	Failed                           string
	MaxName                          int
}

// Has reports whether a scope is chosen.
func (f keyForm) Has(scope string) bool { return slices.Contains(f.Scopes, scope) }

// newKeyForm returns an empty form. Its id makes a form that is sent twice issue one key.
func newKeyForm() keyForm {
	return keyForm{ID: uuid.NewString(), Kind: string(apikey.Secret), Scopes: account.KeyScopes, MaxName: maxKeyName}
}

func (x *exchange) showKeys() error { return x.showKeysWith(http.StatusOK, newKeyForm()) }

func (x *exchange) showKeysWith(status int, form keyForm) error {
	v := keysView{Form: form, Limits: map[string]account.KeyLimit{}}
	notice := x.fresh(keys.Name)
	all, err := x.Audit.ListKeys(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	standing, err := x.Writer.Standing(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	for i := range all { // the newest first
		k := all[len(all)-1-i]
		v.Limits[k.ID], _ = standing.KeyLimits.Of(k.ID, x.Now())
		switch {
		case k.State == keys.Active:
			v.Valid = append(v.Valid, k)
		case len(v.Ended) < maxEnded:
			v.Ended = append(v.Ended, k)
		default:
			v.MoreEnded++
		}
		if k.ID == x.Request.URL.Query().Get("revoked") && !k.RevokedAt.IsZero() {
			v.Done = "The key " + k.Title() + " is revoked. Requests with it answer 401."
		}
	}
	return x.show(status, "keys", view{Title: "Keys", Section: "Keys", Notice: notice, Page: v})
}

// issueKey answers POST /dashboard/keys. The answer is the only page that has the text of the key.
func (x *exchange) issueKey() error {
	form := keyForm{ID: x.Form.Get("id"), Name: strings.TrimSpace(x.Form.Get("name")), Kind: x.Form.Get("kind"),
		Expires: strings.TrimSpace(x.Form.Get("expires")), Scopes: x.Form["scope"], Origins: x.Form.Get("origins"),
		Problems: map[string]string{}, MaxName: maxKeyName}
	if problem := checkKeyName(form.Name); problem != "" {
		form.Problems["name"] = problem
	}
	terms := form.terms()
	if _, err := uuid.Parse(form.ID); err != nil {
		form.ID = uuid.NewString() // it was not sent by the page, so it is no repeat
	}
	if len(form.Problems) > 0 {
		return x.showKeysWith(http.StatusUnprocessableEntity, form)
	}
	key := operations.NewKey{Kind: apikey.Kind(form.Kind), Name: form.Name, Terms: terms}
	issued, err := x.Operations.Accounts.IssueKey(x.Ctx, x.by(form.ID), x.session.AccountID, key)
	var invalid *account.InvalidError
	notice := ""
	switch {
	case errors.As(err, &invalid) && form.reject(invalid):
		return x.showKeysWith(http.StatusUnprocessableEntity, form)
	case errors.Is(err, eventschemas.ErrNotYet):
		form.Failed = "The service is being upgraded, and keys that expire or are limited can be issued when that is finished. A key without limits can be issued now."
	case errors.Is(err, commands.ErrNotSeen):
		x.log(&problem{Status: http.StatusServiceUnavailable, Cause: err})
		notice = "The key is issued, but not every part of the service has confirmed it in time. Requests with it may answer 401 for a moment."
	case errors.Is(err, account.ErrTooManyKeys):
		form.Failed = fmt.Sprintf(
			"The account has %d valid keys, which is the limit. Revoke one that is not used any more.", account.MaxKeys)
	case errors.Is(err, account.ErrClosed):
		form.Failed = "The account is closed, so it cannot get keys."
	case err != nil:
		return err
	}
	if form.Failed != "" {
		return x.showKeysWith(http.StatusConflict, form)
	}
	return x.show(http.StatusOK, "issued", view{Title: "Key issued", Section: "Keys", Notice: notice, Page: struct {
		operations.Key
		Name string
	}{issued, form.Name}})
}

// terms returns the terms that the form asks for, and explains fields that it cannot read.
func (f *keyForm) terms() (t account.KeyTerms) {
	t.Origins = strings.FieldsFunc(f.Origins, func(r rune) bool { return unicode.IsSpace(r) || r == ',' })
	if f.Expires != "" {
		day, err := time.Parse(time.DateOnly, f.Expires)
		if err != nil {
			f.Problems["expires"] = "Choose a day, written as 2027-01-31, or leave the field empty."
		}
		t.ExpiresAt = day.AddDate(0, 0, 1)
	}
	switch f.Kind {
	case string(apikey.Secret):
		if len(t.Origins) > 0 {
			f.Problems["origins"] = "A secret key has no origins, because it must not be in web pages. Leave this empty, or choose publishable."
		}
	case string(apikey.Publishable):
		if len(f.Scopes) == 0 {
			f.Problems["scopes"] = "Choose at least one."
		}
		if !slices.Equal(f.Scopes, account.KeyScopes) {
			t.Scopes = f.Scopes
		}
	default:
		f.Problems["kind"] = "Choose secret or publishable."
	}
	return t
}

// reject explains terms that the account rejects. It returns false if no field of the form has the cause.
func (f *keyForm) reject(e *account.InvalidError) bool {
	fields := map[string]string{"expiry": "expires", "scope": "scopes", "origin": "origins", "origins": "origins"}
	field, known := fields[e.Field]
	if known {
		f.Problems[field] = "The " + e.Field + " " + e.Reason + "."
	}
	return known
}

// checkKeyName returns a sentence about a name that a key cannot have.
func checkKeyName(name string) string {
	hidden := text.CheckShown(name)
	switch {
	case name == "":
		return "Give the key a name, by which you know it when you want to revoke it."
	case hidden != nil:
		return fmt.Sprintf("The name %s. Use letters, digits and punctuation.", hidden)
	case utf8.RuneCountInString(name) > maxKeyName:
		return fmt.Sprintf("The name has %d characters. Use at most %d.", utf8.RuneCountInString(name), maxKeyName)
	}
	return ""
}

// formNamespace is the namespace of the ids of requests that follow from a form.
var formNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:letterhead:dashboard"))

// by returns the metadata of the events that a form causes. A form that is sent again has the same request id, so that
// it does nothing a second time. The correlation id leads to the person, who is in the events of the session.
func (x *exchange) by(form string) commands.Request {
	id := uuid.NewSHA1(formNamespace, []byte(x.session.AccountID+"/"+form)).String()
	return commands.Request{ID: id, Actor: "account:" + x.session.AccountID, CorrelationID: x.session.ID}
}

func (x *exchange) key() (audit.Key, error) {
	missing := web.NewProblem(http.StatusNotFound, "There is no such key", "The account has no key with this id.", nil)
	id := x.Request.PathValue("id")
	if !web.IsText(id) {
		return audit.Key{}, missing
	}
	x.fresh(keys.Name) // for keys that were just issued; others are found anyway
	k, err := x.Audit.Key(x.Ctx, x.session.AccountID, id)
	if err != nil {
		return audit.Key{}, err
	}
	if k == nil {
		return audit.Key{}, missing
	}
	return *k, nil
}

// showRevoke answers GET /dashboard/keys/{id}/revoke, which confirms.
func (x *exchange) showRevoke() error {
	k, err := x.key()
	if err != nil {
		return err
	}
	return x.show(http.StatusOK, "revoke", view{Title: "Revoke a key", Section: "Keys", Page: k})
}

// revokeKey answers POST /dashboard/keys/{id}/revoke. A key that is revoked already stays so.
func (x *exchange) revokeKey() error {
	k, err := x.key()
	if err != nil {
		return err
	}
	done, err := x.Writer.RevokeKey(x.Ctx,
		commands.RevokeKey{Request: x.by("revoke/" + k.ID), AccountID: x.session.AccountID, KeyID: k.ID})
	if err != nil {
		return err
	}
	if err := x.Operations.Reads.AwaitKeys(x.Ctx, done.Position); err != nil {
		return web.NewProblem(http.StatusServiceUnavailable, "The key is revoked, but not everywhere yet",
			"Not every part of the service has confirmed it in time, so requests with the key may still be answered. Revoke it again to wait for the confirmation.", err)
	}
	return x.redirect("/keys?revoked=" + url.QueryEscape(k.ID))
}

// limitKey answers POST /dashboard/keys/{id}/limit. Without credits it removes the limit.
func (x *exchange) limitKey() error {
	k, err := x.key()
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(strings.TrimSpace(x.Form.Get("limit")), ",", "")
	credits, err := strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
	if err != nil {
		return web.NewProblem(http.StatusUnprocessableEntity, "The limit is not changed",
			"Give a whole number of credits, such as 1000, or nothing to remove the limit.", nil)
	}
	_, err = x.Writer.LimitKey(x.Ctx, commands.LimitKey{Request: x.by("limit/" + k.ID + "/" + uuid.NewString()),
		AccountID: x.session.AccountID, KeyID: k.ID, Limit: credits, Period: x.Form.Get("period")})
	var invalid *account.InvalidError
	if errors.As(err, &invalid) {
		return web.NewProblem(http.StatusUnprocessableEntity, "The limit is not changed",
			"The "+invalid.Field+" "+invalid.Reason+".", nil)
	}
	if err != nil {
		return err
	}
	return x.redirect("/keys")
}
