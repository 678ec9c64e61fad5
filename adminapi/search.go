package adminapi

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/domain/operator"
	"letterhead/faults"
	"letterhead/internal/accountnames"
	"letterhead/projections/accounts"
	"letterhead/projections/ledger"
	"letterhead/projections/operators"
	"letterhead/projections/payments"
)

// Limits of searches.
const (
	// minSearched and maxSearched limit a text to search, in characters.
	minSearched, maxSearched = 2, 200
	// minBeginning is the least length of the beginning of an account's id.
	minBeginning = 8
	// maxMatches limits the accounts that a text selects, and maxNames the names that are read for them.
	maxMatches, maxNames = 500, 10_000
	// maxHits limits the hits of each kind.
	maxHits = 20
)

// Hit is something that a search found.
type Hit struct {
	Kind  string `json:"kind"` // account, request, payment, operator or brand
	ID    string `json:"id"`   // of a brand, its domain
	Title string `json:"title"`
	Path  string `json:"path"` // of its page
}

// searched returns the parameter q; empty if it is missing.
func (q *parameters) searched() string {
	text := strings.TrimSpace(q.text("q"))
	n := utf8.RuneCountInString(text)
	wrong := n < minSearched || n > maxSearched || strings.ContainsFunc(text, unicode.IsControl)
	q.reject(q.values.Has("q") && wrong, "The parameter q takes %d to %d characters of text.", minSearched, maxSearched)
	return text
}

// matching returns the accounts whose id begins with a text, and those whose name or, if the operator may read it, whose
// address for sign-in links has words that begin with its words, or is the text if that has an @: the best first, at most
// maxMatches. names has the names that match, also of other things, by their ids. more means that more may match.
func (x *exchange) matching(text string) (found []accounts.Account, names map[string]string, more bool, err error) {
	if err := x.folded(accounts.Name); err != nil {
		return nil, nil, false, err
	}
	begin := strings.ToLower(text)
	keys, names := []any{text, begin}, map[string]string{}
	if len(begin) >= minBeginning {
		page, err := x.api.Accounts.List(x.ctx, begin, maxMatches)
		if err != nil {
			return nil, nil, false, err
		}
		for i := 0; i < len(page) && strings.HasPrefix(page[i].ID, begin); i++ {
			keys = append(keys, page[i].ID)
		}
	}
	var emails []accountnames.Entry
	moreEmails := false
	if allows(x.token.Scope, supporting) {
		if emails, moreEmails, err = x.api.Names.Search(x.ctx, text, true, maxMatches); err != nil {
			return nil, nil, false, err
		}
	}
	ids := len(keys)
	// The names of keys and operators match, too. If they leave out accounts, more names are read.
	for _, limit := range []int{maxMatches, maxNames} {
		var named []accountnames.Entry
		if named, more, err = x.api.Names.Search(x.ctx, text, false, limit); err != nil {
			return nil, nil, false, err
		}
		keys, found = keys[:ids], nil
		for _, e := range named {
			names[e.ID], keys = e.Name, append(keys, e.ID)
		}
		for _, e := range emails {
			id, _, _ := strings.Cut(strings.TrimPrefix(e.ID, accountnames.EmailPrefix), "/")
			keys = append(keys, id)
		}
		known, err := x.api.Accounts.Find(x.ctx, keys)
		if err != nil {
			return nil, nil, false, err
		}
		for _, key := range keys {
			if a := known[key.(string)]; a != nil {
				found = append(found, *a)
				delete(known, a.ID)
				delete(known, a.Holder)
			}
		}
		if !more || len(found) >= maxMatches {
			break
		}
	}
	more = more || moreEmails || len(found) > maxMatches
	return found[:min(len(found), maxMatches)], names, more, nil
}

// search answers GET /admin/search. Read models that are being built leave out their kinds of hits, which missing names.
func (x *exchange) search() error {
	q := x.query("q")
	text := q.searched()
	q.reject(text == "", "The parameter q is needed: a name, an e-mail address, a domain or an id.")
	if q.err != nil {
		return q.err
	}
	var found []accounts.Account
	var names map[string]string
	var more bool
	hits, missing := []Hit{}, []string{}
	for _, kind := range []struct {
		name string
		find func() error
	}{
		{"account", func() (err error) {
			found, names, more, err = x.matching(text)
			return err
		}},
		{"request", func() error { return x.requests(text, &hits) }},
		{"payment", func() error { return x.payments(text, &hits) }},
		{"operator", func() error { return x.operators(text, names, &hits) }},
		{"account", func() error { return x.named(found, &hits) }},
	} {
		if err := kind.find(); faults.NotReady(err) {
			missing = append(missing, kind.name)
		} else if err != nil {
			return err
		}
	}
	more = more || len(found) > maxHits
	isID := func(h Hit) bool { return strings.HasPrefix(strings.ToLower(h.ID), strings.ToLower(text)) }
	if !strings.Contains(text, "@") && !slices.ContainsFunc(hits, isID) {
		known, err := x.api.Search(x.ctx, text, maxHits)
		if err != nil {
			x.api.Logger.WarnContext(x.ctx, "brands cannot be searched", "request_id", x.ID, "error", err)
			missing = append(missing, "brand")
		}
		for _, b := range known {
			if b.BrandID == nil { // a domain that is not known has no page
				continue
			}
			hits = append(hits, Hit{"brand", b.Domain, b.Name, "/brands/" + url.PathEscape(b.Domain)})
		}
		more = more || err != nil || len(known) == maxHits
	}
	return x.answer(http.StatusOK, map[string]any{"hits": hits, "more": more, "missing": missing})
}

func (x *exchange) named(found []accounts.Account, hits *[]Hit) error {
	found = found[:min(len(found), maxHits)]
	names, err := x.names(found)
	for _, a := range found {
		page := "/accounts/" + url.PathEscape(a.ID)
		*hits = append(*hits, Hit{"account", a.ID, cmp.Or(names[a.Holder], a.ID), page})
	}
	return err
}

// requests adds the requests whose id a text is.
func (x *exchange) requests(text string, hits *[]Hit) error {
	if err := x.folded(ledger.Name); err != nil {
		return err
	}
	for e, err := range x.api.Ledger.ByRequest(x.ctx, text) {
		if err != nil || len(*hits) == maxHits {
			return err
		}
		page := "/accounts/" + url.PathEscape(e.AccountID) + "/requests/" + url.PathEscape(text)
		if !slices.ContainsFunc(*hits, func(h Hit) bool { return h.Path == page }) {
			*hits = append(*hits, Hit{"request", text, "Request of account " + e.AccountID, page})
		}
	}
	return nil
}

// payments adds the payments whose id a text is.
func (x *exchange) payments(text string, hits *[]Hit) error {
	if err := x.folded(payments.Name); err != nil {
		return err
	}
	paid, err := x.api.Payments.List(x.ctx, payments.Selection{ID: text}, nil, maxHits)
	for _, p := range paid {
		page := "/payments/" + url.PathEscape(p.ID) + "?account=" + url.QueryEscape(p.AccountID)
		*hits = append(*hits, Hit{"payment", p.ID, "Payment of account " + p.AccountID, page})
	}
	return err
}

// operators adds the operators whose id a text is, and those with one of some names, if the operator may read these.
func (x *exchange) operators(text string, names map[string]string, hits *[]Hit) error {
	if err := x.folded(operators.Name); err != nil {
		return err
	}
	tokens, err := x.api.Operators.List(x.ctx, operators.Selection{}, operator.MaxTokens)
	for _, t := range tokens {
		name := names[t.ID]
		if !allows(x.token.Scope, everything) {
			name = ""
		}
		if name != "" || strings.TrimPrefix(text, "operator:") == t.ID {
			page := "/actions?actor=" + url.QueryEscape("operator:"+t.ID)
			*hits = append(*hits, Hit{"operator", t.ID, cmp.Or(name, "Operator "+t.ID), page})
		}
	}
	return err
}
