package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"letterhead/internal/web"
	"letterhead/projections/brands"
)

// maxIdentifier limits what is looked up, in bytes. It is longer than any domain.
const maxIdentifier = 300

type playgroundView struct {
	ID         string // of the form: sent again, it repeats its answer
	Identifier string
	Problem    string // a sentence about the identifier
	Available  int64
	BaseURL    string
	Answer     *playgroundAnswer
}

type playgroundAnswer struct {
	Status    int
	Source    string // of the answer; empty for an error
	Remaining string // credits, after the look-up; empty for some errors
	RequestID string
	Path      string         // of the request
	Body      string         // indented
	Brand     map[string]any // the record, or the error
	Past      *brands.Past   // where its fields come from; nil if unknown
}

func (x *exchange) showPlayground() error {
	standing, err := x.Writer.Standing(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	return x.showPlaygroundWith(http.StatusOK,
		playgroundView{Identifier: x.Request.URL.Query().Get("identifier"), Available: standing.Available})
}

func (x *exchange) showPlaygroundWith(status int, v playgroundView) error {
	if v.BaseURL = x.BaseURL; v.ID == "" {
		v.ID = uuid.NewString()
	}
	return x.show(status, "playground", view{Title: "Playground", Section: "Playground", Page: v})
}

// lookUp answers POST /dashboard/playground with what GET /v1/brands/{identifier} answers.
func (x *exchange) lookUp() error {
	standing, err := x.Writer.Standing(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	v := playgroundView{Identifier: strings.TrimSpace(x.Form.Get("identifier")), Available: standing.Available}
	switch {
	case v.Identifier == "":
		v.Problem = "Give a domain such as github.com, or the URL of a page or an e-mail address there."
	// dots would change the path
	case len(v.Identifier) > maxIdentifier || !web.IsText(v.Identifier) || strings.Trim(v.Identifier, ".") == "":
		v.Problem = "This is not a domain, page URL or e-mail address."
	}
	if v.Problem != "" {
		return x.showPlaygroundWith(http.StatusUnprocessableEntity, v)
	}
	plan, err := x.Plans.Get(standing.Plan)
	if err != nil {
		return err
	}
	id := x.Form.Get("id")
	if _, err := uuid.Parse(id); err != nil {
		id = uuid.NewString() // it was not sent by the page, so it is no repeat
	}
	// The look-up has limits of its own. What follows it needs no other part, so that its answer is shown.
	answer, err := x.API.LookUp(x.Request.Context(), LookUp{AccountID: x.session.AccountID, Plan: plan,
		Status: standing.Status, Identifier: v.Identifier, Once: id, From: x.Request.RemoteAddr})
	if err != nil {
		return err
	}
	if v.Answer, err = read(answer); err != nil {
		return err
	}
	if left, err := strconv.ParseInt(v.Answer.Remaining, 10, 64); err == nil {
		v.Available = left
	}
	if answer.Status >= http.StatusInternalServerError { // the next attempt must not be charged twice
		v.ID = id
	}
	v.Answer.Path = "/v1/brands/" + url.PathEscape(v.Identifier)
	if domain, ok := v.Answer.Brand["domain"].(string); ok {
		v.Answer.Past = x.past(domain)
	}
	return x.showPlaygroundWith(http.StatusOK, v)
}

// past returns where the fields of a brand's record come from. Without it the answer, which was paid for, is shown all
// the same.
func (x *exchange) past(domain string) *brands.Past {
	ctx, cancel := context.WithTimeout(x.Ctx, freshWithin)
	defer cancel()
	past, err := brands.History(ctx, x.Audit.Log, domain)
	if err != nil {
		return nil
	}
	return past
}

// read describes an answer of the API to a look-up.
func read(r *web.Answer) (*playgroundAnswer, error) {
	a := &playgroundAnswer{Status: r.Status, RequestID: r.Header().Get("X-Request-Id"),
		Remaining: r.Header().Get("X-Credits-Remaining")}
	var indented bytes.Buffer
	err := errors.Join(json.Unmarshal(r.Body.Bytes(), &a.Brand), json.Indent(&indented, r.Body.Bytes(), "", "  "))
	if err != nil {
		return nil, fmt.Errorf("read the answer of the API: %w", err)
	}
	a.Body = indented.String()
	switch r.Header().Get("X-Cache") {
	case "HIT":
		a.Source = "from the index"
	case "MISS":
		a.Source = "from a live crawl"
	}
	return a, nil
}
