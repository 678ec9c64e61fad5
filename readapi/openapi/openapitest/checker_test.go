package openapitest_test

import (
	"net/http"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/readapi/openapi"
	"letterhead/readapi/openapi/openapitest"
)

const baseURL = "https://brands.example.com"

func checker(t *testing.T) *openapitest.Checker {
	t.Helper()
	c := testmust.Get(openapitest.New(baseURL))(t)
	return c
}

// exampleOf returns the response that the document shows for an operation's status.
func exampleOf(t *testing.T, o *openapi.Operation, r *openapi.Response, c *openapi.Content, body string) openapitest.Answer {
	t.Helper()
	a := openapitest.Answer{Method: o.Method, Path: o.Path, Status: r.Status, Body: []byte(body), Header: http.Header{
		"X-Request-Id": {"x"}, "Access-Control-Allow-Origin": {"*"}, "Access-Control-Expose-Headers": {"X-Request-Id"}, "X-Content-Type-Options": {"nosniff"},
	}}
	for _, p := range o.Parameters {
		if text, ok := p.Example.(string); ok {
			a.Path = strings.ReplaceAll(a.Path, "{"+p.Name+"}", text)
		}
	}
	for _, h := range r.Headers {
		text, ok := h.Example.(string)
		if n, number := h.Example.(interface{ String() string }); !ok && number {
			text = n.String()
		}
		a.Header.Set(h.Name, text)
	}
	if c != nil {
		a.Header.Set("Content-Type", c.Type+"; charset=utf-8")
	}
	if o.Method == http.MethodHead {
		a.Body = nil
	}
	if r.Status == http.StatusMethodNotAllowed {
		a.Method = http.MethodDelete
		a.Header.Set("Allow", map[bool]string{true: "OPTIONS, POST", false: "GET, OPTIONS"}[o.Method == http.MethodPost])
	}
	return a
}

func TestDocument_ExamplesAreValid(t *testing.T) {
	c := checker(t)
	checked := 0
	for _, o := range c.Document().Operations {
		for _, r := range o.Responses {
			for _, content := range r.Contents {
				for _, e := range content.Examples {
					a := exampleOf(t, o, r, content, e.Text)
					if r.Status == http.StatusMethodNotAllowed && len(openapitest.Methods(c.Document(), o.Path)) > 1 {
						a.Header.Set("Allow", "GET, HEAD, OPTIONS")
					}
					if row, ok, err := c.Check(a); err != nil || !ok || row.Status != r.Status {
						t.Errorf("%v %v %v", row, ok, err)
					}
					checked++
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d examples, want at least 100", checked)
	}
}

// Each response has one fault and is otherwise valid.
func TestChecker_FindsFaults(t *testing.T) {
	c := checker(t)
	o := openapitest.Operation(c.Document(), "GET", "/v1/brands/{identifier}")
	good := func(status int) openapitest.Answer {
		r := openapitest.Response(o, status)
		return exampleOf(t, o, r, r.Contents[0], r.Contents[0].Examples[0].Text)
	}
	change := func(status int, from, to string) openapitest.Answer {
		a := good(status)
		body := strings.Replace(string(a.Body), from, to, 1)
		if body == string(a.Body) {
			t.Fatalf("%q is not in %s", from, body)
		}
		a.Body = []byte(body)
		return a
	}
	header := func(status int, name, value string) openapitest.Answer {
		a := good(status)
		if a.Header.Del(name); value != "" {
			a.Header.Set(name, value)
		}
		return a
	}
	status := good(200)
	status.Status = 418
	method := good(200)
	method.Method = http.MethodPut
	unknown := good(200)
	unknown.Path = "/v1/nothing"
	head := good(200)
	head.Method = http.MethodHead
	for name, test := range map[string]struct {
		answer openapitest.Answer
		found  string // part of the error
	}{
		"status":               {status, "does not have the status"},
		"method":               {method, "does not have the method"},
		"path":                 {unknown, "does not have the path"},
		"body on HEAD":         {head, "there is a body"},
		"unknown field":        {change(200, `"urn"`, `"surprise": 1, "urn"`), "kin-openapi"},
		"missing field":        {change(200, `"claimed": false,`, ``), "kin-openapi"},
		"wrong type":           {change(200, `"claimed": false`, `"claimed": "no"`), "kin-openapi"},
		"outside its range":    {change(200, `"qualityScore": 0.83`, `"qualityScore": 1.5`), "kin-openapi"},
		"outside its list":     {change(200, `"ready"`, `"done"`), "kin-openapi"},
		"against its pattern":  {change(200, `#0b57d0`, `#0B57D0`), "kin-openapi"},
		"null where none is":   {change(200, `"tags": []`, `"tags": null`), "kin-openapi"},
		"code of another":      {change(402, `"insufficient_credits"`, `"timeout"`), "kin-openapi"},
		"without its details":  {change(402, `"required": 1,`, ``), "kin-openapi"},
		"message at the top":   {change(402, `"error"`, `"message": "x", "error"`), "kin-openapi"},
		"no JSON":              {change(200, `{`, `[`), "kin-openapi"},
		"content type":         {header(200, "Content-Type", "text/html; charset=utf-8"), "Content-Type is"},
		"header missing":       {header(200, "X-Cache", ""), "header X-Cache is missing"},
		"header of no number":  {header(200, "X-Credits-Remaining", "many"), "not a whole number"},
		"header below zero":    {header(200, "X-Credits-Remaining", "-1"), "below 0"},
		"header not in a list": {header(200, "X-Cache", "MAYBE"), "not one of"},
		"header not described": {header(402, "X-Cache", "HIT"), "X-Cache is not in the document"},
		"no request id":        {header(200, "X-Request-Id", ""), "header X-Request-Id is missing"},
		"no CORS":              {header(200, "Access-Control-Allow-Origin", ""), "Access-Control-Allow-Origin"},
	} {
		_, _, err := c.Check(test.answer)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.Contains(err.Error(), test.found) {
			t.Errorf("%s: the error does not contain %q: %v", name, test.found, err)
		}
	}
}

// The status decides whether an item has a brand or an error.
func TestBatchItem_HasBrandOrError(t *testing.T) {
	c := checker(t)
	o := openapitest.Operation(c.Document(), "POST", "/v1/brands/batch")
	r := openapitest.Response(o, http.StatusOK)
	good := exampleOf(t, o, r, r.Contents[0], r.Contents[0].Examples[0].Text)
	if _, _, err := c.Check(good); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{`"status": 200`: `"status": 404`, `"status": 503`: `"status": 200`} {
		bad := good
		bad.Body = []byte(strings.Replace(string(good.Body), from, to, 1))
		if _, _, err := c.Check(bad); err == nil {
			t.Errorf("no error for %s in place of %s", to, from)
		}
	}
}
