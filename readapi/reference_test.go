package readapi_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestReference_Search_FindsOperationsSchemasFieldsAndCodes(t *testing.T) {
	t.Parallel()
	s := start(t)
	for query, want := range map[string][]string{
		"getBrandById":      {`<a href="docs/compatible-paths#op-getBrandById">`},
		"look+several":      {`<a href="docs/brands#op-getBrands">`, "Look up several brands"},
		"%2Fv1%2FLEDGER":    {`<a href="docs/ledger#op-listLedger">`},
		"if-none-match":     {`<a href="docs/brands#op-getBrand">`},
		"retry-after":       {`<a href="docs/agents#op-callAgentEndpoint">`},
		"Brand.colors":      {`<a href="docs/schemas#schema-Brand">`, "<code>Brand.colors</code>"},
		"quota_exceeded":    {`<a href="docs/errors#quota_exceeded">`},
		"post+checkout":     {`<a href="docs/account#op-createCheckout">`},
		"%3Cb%3E":           {"Nothing has <strong>&lt;b&gt;</strong>", `value="&lt;b&gt;"`},
		"logo+no-such-word": {"Nothing has"},
	} {
		a := s.opened("/docs?q="+query, nil)
		if a.status != http.StatusOK || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'; form-action 'self'; style-src ") {
			t.Errorf("%s: status %d, %v", query, a.status, a.header)
		}
		for _, part := range want {
			if !strings.Contains(string(a.body), part) {
				t.Errorf("%s: the page lacks %s", query, part)
			}
		}
	}
	for _, query := range []string{strings.Repeat("a", 101), "%ff"} {
		a := s.opened("/docs?q="+query, nil)
		if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `<p class="rejected" id="rejected" role="alert">The search `) {
			t.Errorf("%s: status %d, %.300s", query, a.status, a.body)
		}
	}
	if a, b := s.opened("/docs", nil), s.opened("/docs?q=+", nil); a.header.Get("ETag") == "" || string(a.body) != string(b.body) {
		t.Error("a search for nothing is not the overview")
	}
}

func TestReference_UnknownPage_Is404WithALinkBack(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/docs/nothing", "/docs/Brands", "/docs/docs", "/docs/bot", "/docs/brands/x"} {
		a := s.opened(path, http.Header{"Accept": {"text/html"}})
		if a.status != http.StatusNotFound || !strings.Contains(string(a.body), `<a href="`+baseURL+`/docs">The API</a>`) {
			t.Errorf("%s: status %d, %.300s", path, a.status, a.body)
		}
	}
}

func TestReference_LookUp_HasSamplesAndLeadsToThePlayground(t *testing.T) {
	t.Parallel()
	s := start(t)
	page := string(s.opened("/docs/brands", nil).body)
	for _, want := range []string{
		`<a href="` + baseURL + `/dashboard/playground?identifier=github.com">`,
		`letterhead.http.GET("/v1/brands/{identifier}", {
  params: {
    path: {
      identifier: "github.com"
    }
  }
});`,
		`letterhead.http.POST("/v1/brands/batch", {
  body: {
    identifiers: [`,
	} {
		if strings.Count(page, want) != 1 {
			t.Errorf("the page has %d times %s, want it once", strings.Count(page, want), want)
		}
	}
}
