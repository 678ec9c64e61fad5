package readapi

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"letterhead/internal/web"
)

func TestParseSearch_EachParameter_IsChecked(t *testing.T) {
	for _, c := range []struct {
		query string
		q     string
		limit int
		ok    bool
	}{
		{"q=acme", "acme", 10, true},
		{"q=acme&limit=1", "acme", 1, true},
		{"q=acme&limit=20", "acme", 20, true},
		{"limit=007&q=acme", "acme", 7, true},
		{"q=a%20b+c", "a b c", 10, true},
		{"%71=acme", "acme", 10, true},
		{"q=" + strings.Repeat("%C3%BC", 100), strings.Repeat("ü", 100), 10, true},
		{"q=acme&utm=%zz&;&%zz=1&utm=2", "acme", 10, true},
		{"q=a;b", "a;b", 10, true},
		{"Q=acme", "", 0, false},
		{"", "", 0, false},
		{"q=", "", 0, false},
		{"q", "", 0, false},
		{"q=" + strings.Repeat("%C3%BC", 101), "", 0, false},
		{"q=%FF", "", 0, false},
		{"q=%zz", "", 0, false},
		{"q=a&q=a", "", 0, false},
		{"q=a&%71=b", "", 0, false},
		{"q=a&limit=", "", 0, false},
		{"q=a&limit=0", "", 0, false},
		{"q=a&limit=21", "", 0, false},
		{"q=a&limit=-1", "", 0, false},
		{"q=a&limit=%2B5", "", 0, false},
		{"q=a&limit=+5", "", 0, false},
		{"q=a&limit=5.0", "", 0, false},
		{"q=a&limit=1e1", "", 0, false},
		{"q=a&limit=ten", "", 0, false},
		{"q=a&limit=5&limit=5", "", 0, false},
		{"q=a&limit=99999999999999999999", "", 0, false},
	} {
		q, limit, problem := parseSearch(c.query)
		if (problem == nil) != c.ok || c.ok && (q != c.q || limit != c.limit) {
			t.Errorf("%q: q %q limit %d problem %v", c.query, q, limit, problem)
		}
		if problem != nil && (problem.Status != 400 || problem.Code != CodeInvalidRequest) {
			t.Errorf("%q: %d %s, want 400 invalid_request", c.query, problem.Status, problem.Code)
		}
	}
}

func TestParseRefresh_EachValue_IsChecked(t *testing.T) {
	for _, c := range []struct {
		query    string
		want, ok bool
	}{
		{"", false, true}, {"refresh=true", true, true}, {"refresh=1", true, true}, {"refresh=false", false, true},
		{"refresh=0", false, true}, {"a=b&refresh=%74rue", true, true}, {"refresh=", false, false}, {"refresh", false, false},
		{"refresh=yes", false, false}, {"refresh=TRUE", false, false}, {"refresh=2", false, false},
		{"refresh=true&refresh=true", false, false}, {"refresh=%zz", false, false},
	} {
		got, problem := parseRefresh(c.query)
		if got != c.want || (problem == nil) != c.ok {
			t.Errorf("%q: %v, %v", c.query, got, problem)
		}
	}
}

// Whatever is accepted is within the limits, and reads the same when encoded again in the plain form.
func FuzzSearchParameters(f *testing.F) {
	for _, seed := range []string{"q=acme&limit=5", "q=%C3%BC", "q=a&q=b", "q=%", "&&=&q=1;2", "limit=20&%71=x+y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, limit, problem := parseSearch(query)
		if problem != nil {
			return
		}
		if n := utf8.RuneCountInString(q); n < 1 || n > maxSearchRunes || limit < minLimit || limit > maxSearchLimit {
			t.Fatalf("%q was read as %d characters, limit %d; want 1 to %d characters and a limit from %d to %d", query, n, limit, maxSearchRunes, minLimit, maxSearchLimit)
		}
		again, _, problem := parseSearch("q=" + url.QueryEscape(q))
		if problem != nil || again != q {
			t.Fatalf("%q reads %q, and encoded again %q (%v)", query, q, again, problem)
		}
	})
}

// Other parameters have no effect, and repeating the same parameter is rejected.
func FuzzQueryValue(f *testing.F) {
	f.Add("q=a&limit=5", "limit")
	f.Add("%6cimit=5", "limit")
	f.Add("limit", "limit")
	f.Add("limit=%zz&&=;", "limit")
	f.Add("refresh=true&%=", "refresh")
	f.Fuzz(func(t *testing.T, query, name string) {
		if name == "" {
			return // parameters of ours have a name
		}
		value, present, problem := web.QueryValue(query, name)
		if problem != nil && (problem.Status != 400 || problem.Code != CodeInvalidRequest || !present) {
			t.Fatalf("%q: %d %s, present %v", query, problem.Status, problem.Code, present)
		}
		other := url.QueryEscape(name + "x")
		for _, extended := range []string{query + "&" + other + "=1", other + "&" + query, "&" + query + "&", "%zz=1&" + query} {
			if v, p, pr := web.QueryValue(extended, name); v != value || p != present || (pr == nil) != (problem == nil) {
				t.Fatalf("%q of %q is %q, %v; of %q it is %q, %v", name, query, value, problem, extended, v, pr)
			}
		}
		if again := query + "&" + url.QueryEscape(name) + "=1"; present {
			if _, _, problem := web.QueryValue(again, name); problem == nil {
				t.Fatalf("%q is read from %q", name, again)
			}
		} else if v, _, problem := web.QueryValue(again, name); problem != nil || v != "1" {
			t.Fatalf("%q of %q is %q, %v; want %q", name, again, v, problem, "1")
		}
	})
}
