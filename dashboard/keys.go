package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/internal/apikey"
	"letterhead/projections/keys"
)

const (
	// maxKeyName limits the name of a key, in characters.
	maxKeyName = 100
	// maxRevoked limits the revoked keys that are listed, the latest first.
	maxRevoked = 50
)

// keysView is the data of the page of keys.
type keysView struct {
	Active, Revoked []keyRow
	MoreRevoked     int // that are not listed
	Form            keyForm
	Done            string // what was just done
}

// keyRow is a key as it is listed.
type keyRow struct {
	keys.Listed
	Name string // empty if it has none
}

// Title is the name of the key, or else its end.
func (k keyRow) Title() string {
	if k.Name != "" {
		return k.Name
	}
	return "…" + k.Last4
}

// keyForm is the form for a new key as it was filled in. The problems are sentences for its fields.
type keyForm struct {
	ID, Name, Kind                   string
	NameProblem, KindProblem, Failed string
	MaxName                          int
}

// newKeyForm returns an empty form. Its id makes a form that is sent twice issue one key.
func newKeyForm() keyForm {
	return keyForm{ID: uuid.NewString(), Kind: string(apikey.Secret), MaxName: maxKeyName}
}

// showKeys answers GET /dashboard/keys.
func (x *exchange) showKeys() error { return x.showKeysWith(http.StatusOK, newKeyForm()) }

func (x *exchange) showKeysWith(status int, form keyForm) error {
	v := keysView{Form: form}
	notice := x.fresh(keys.Name)
	all, err := x.listKeys()
	if err != nil {
		return err
	}
	for i := range all { // the newest first
		k := all[len(all)-1-i]
		switch {
		case k.RevokedAt.IsZero():
			v.Active = append(v.Active, k)
		case len(v.Revoked) < maxRevoked:
			v.Revoked = append(v.Revoked, k)
		default:
			v.MoreRevoked++
		}
		if k.ID == x.r.URL.Query().Get("revoked") && !k.RevokedAt.IsZero() {
			v.Done = "The key " + k.Title() + " is revoked. Requests with it answer 401."
		}
	}
	return x.show(status, "keys", view{Title: "Keys", Section: "Keys", Notice: notice, Page: v})
}

func (x *exchange) listKeys() ([]keyRow, error) {
	listed, err := x.Keys.List(x.ctx, x.session.AccountID)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(listed))
	for i := range listed {
		ids[i] = listed[i].ID
	}
	names, err := x.Names.Names(x.ctx, ids...)
	if err != nil {
		return nil, err
	}
	rows := make([]keyRow, len(listed))
	for i := range listed {
		rows[i] = keyRow{listed[i], names[listed[i].ID]}
	}
	return rows, nil
}

// issueKey answers POST /dashboard/keys. The answer is the only page that has the text of the key.
func (x *exchange) issueKey() error {
	form := keyForm{ID: x.form.Get("id"), Name: strings.TrimSpace(x.form.Get("name")), Kind: x.form.Get("kind"), MaxName: maxKeyName}
	form.NameProblem = checkKeyName(form.Name)
	if form.Kind != string(apikey.Secret) && form.Kind != string(apikey.Publishable) {
		form.KindProblem = "Choose secret or publishable."
	}
	if _, err := uuid.Parse(form.ID); err != nil {
		form.ID = uuid.NewString() // it was not sent by the page, so it is no repeat
	}
	if form.NameProblem != "" || form.KindProblem != "" {
		return x.showKeysWith(http.StatusUnprocessableEntity, form)
	}
	issued, err := x.Operations.IssueKey(x.ctx, x.by(form.ID), x.session.AccountID, apikey.Kind(form.Kind), form.Name)
	notice := ""
	switch {
	case errors.Is(err, commands.ErrNotSeen):
		x.log(&problem{Status: http.StatusServiceUnavailable, cause: err})
		notice = "The key is issued, but not every part of the service has confirmed it in time. Requests with it may answer 401 for a moment."
	case errors.Is(err, account.ErrTooManyKeys):
		form.Failed = fmt.Sprintf("The account has %d valid keys, which is the limit. Revoke one that is not used any more.", account.MaxKeys)
	case errors.Is(err, account.ErrClosed):
		form.Failed = "The account is closed, so it cannot get keys."
	case err != nil:
		return err
	}
	if form.Failed != "" {
		return x.showKeysWith(http.StatusConflict, form)
	}
	return x.show(http.StatusOK, "issued", view{Title: "Key issued", Section: "Keys", Notice: notice, Page: struct {
		IssuedKey
		Name string
	}{issued, form.Name}})
}

// checkKeyName returns a sentence about a name that a key cannot have.
func checkKeyName(name string) string {
	switch {
	case name == "":
		return "Give the key a name, by which you know it when you want to revoke it."
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
		return "The name has characters that cannot be shown. Use letters, digits and punctuation."
	case utf8.RuneCountInString(name) > maxKeyName:
		return fmt.Sprintf("The name has %d characters. Use at most %d.", utf8.RuneCountInString(name), maxKeyName)
	}
	return ""
}

// formNamespace is the namespace of the ids of requests that follow from a form.
var formNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:letterhead:dashboard"))

// by returns the metadata of the events that a form causes. A form that is sent again has the same request id, so that it
// does nothing a second time. The correlation id leads to the person, who is in the events of the session.
func (x *exchange) by(form string) commands.Request {
	id := uuid.NewSHA1(formNamespace, []byte(x.session.AccountID+"/"+form)).String()
	return commands.Request{ID: id, Actor: "account:" + x.session.AccountID, CorrelationID: x.session.ID}
}

// key returns the key in the path.
func (x *exchange) key() (keyRow, error) {
	missing := &problem{http.StatusNotFound, "There is no such key", "The account has no key with this id.", nil}
	id := x.r.PathValue("id")
	if !isText(id) {
		return keyRow{}, missing
	}
	k, found, err := x.Keys.Get(x.ctx, id)
	if err != nil {
		return keyRow{}, err
	}
	if !found || k.AccountID != x.session.AccountID {
		return keyRow{}, missing
	}
	names, err := x.Names.Names(x.ctx, id)
	return keyRow{k, names[id]}, err
}

// isText reports whether a value can be part of a query: PostgreSQL rejects other texts.
func isText(value string) bool { return utf8.ValidString(value) && !strings.Contains(value, "\x00") }

// showRevoke answers GET /dashboard/keys/{id}/revoke, which confirms.
func (x *exchange) showRevoke() error {
	x.fresh(keys.Name) // for keys that were just issued; others are found anyway
	k, err := x.key()
	if err != nil {
		return err
	}
	return x.show(http.StatusOK, "revoke", view{Title: "Revoke a key", Section: "Keys", Page: k})
}

// revokeKey answers POST /dashboard/keys/{id}/revoke. A key that is revoked already stays so.
func (x *exchange) revokeKey() error {
	x.fresh(keys.Name)
	k, err := x.key()
	if err != nil {
		return err
	}
	done, err := x.Writer.RevokeKey(x.ctx, commands.RevokeKey{Request: x.by("revoke/" + k.ID), AccountID: x.session.AccountID, KeyID: k.ID})
	if err != nil {
		return err
	}
	if err := x.Operations.AwaitKeys(x.ctx, done.Position); err != nil {
		return &problem{http.StatusServiceUnavailable, "The key is revoked, but not everywhere yet",
			"Not every part of the service has confirmed it in time, so requests with the key may still be answered. Revoke it again to wait for the confirmation.", err}
	}
	return x.redirect("/keys?revoked=" + url.QueryEscape(k.ID))
}
