package readapi

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"letterhead/internal/apikey"
)

func TestSentKey_Headers_OneKeyOnly(t *testing.T) {
	const key = "lh_sk_one"
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"bearer", http.Header{"Authorization": {"Bearer lh_sk_one"}}, key},
		{"scheme has no case", http.Header{"Authorization": {"bEARER lh_sk_one"}}, key},
		{"spaces around", http.Header{"Authorization": {"  Bearer   lh_sk_one "}}, key},
		{"x-api-key", http.Header{"X-Api-Key": {" lh_sk_one "}}, key},
		{"both the same", http.Header{"Authorization": {"Bearer lh_sk_one"}, "X-Api-Key": {"lh_sk_one"}}, key},
		{"another scheme and x-api-key", http.Header{"Authorization": {"Basic dXNlcg=="}, "X-Api-Key": {"lh_sk_one"}}, key},
		{"bearer and an empty x-api-key", http.Header{"Authorization": {"Bearer lh_sk_one"}, "X-Api-Key": {""}}, key},
		{"none", http.Header{}, ""},
		{"another scheme", http.Header{"Authorization": {"Basic bGhfc2tfb25l"}}, ""},
		{"a foreign token and x-api-key", http.Header{"Authorization": {"Bearer eyJhbGciOi.x.y"}, "X-Api-Key": {"lh_sk_one"}}, key},
		{"two foreign tokens and x-api-key", http.Header{"Authorization": {"Negotiate YII=", "Digest username=\"lh_sk_two\""}, "X-Api-Key": {"lh_sk_one"}}, key},
		{"a lone scheme and x-api-key", http.Header{"Authorization": {"Negotiate"}, "X-Api-Key": {"lh_sk_one"}}, key},
		{"the same key in another scheme", http.Header{"Authorization": {"Token lh_sk_one"}, "X-Api-Key": {"lh_sk_one"}}, key},
		{"the same key without a scheme", http.Header{"Authorization": {"lh_sk_one"}, "X-Api-Key": {"lh_sk_one"}}, key},
		{"another key in another scheme", http.Header{"Authorization": {"Token  lh_sk_two"}, "X-Api-Key": {"lh_sk_one"}}, ""},
		{"another key without a scheme", http.Header{"Authorization": {"lh_sk_two"}, "X-Api-Key": {"lh_sk_one"}}, ""},
		{"another key behind a tab", http.Header{"Authorization": {"Bearer\tlh_sk_two"}, "X-Api-Key": {"lh_sk_one"}}, ""},
		{"another key in the second header", http.Header{"Authorization": {"Basic x", "Bearer lh_sk_two"}, "X-Api-Key": {"lh_sk_one"}}, ""},
		{"a foreign token and ours", http.Header{"Authorization": {"Basic x", "Bearer lh_sk_one"}}, ""},
		{"a key in another scheme", http.Header{"Authorization": {"Token lh_sk_one"}}, ""},
		{"no scheme", http.Header{"Authorization": {"lh_sk_one"}}, ""},
		{"no token", http.Header{"Authorization": {"Bearer"}}, ""},
		{"both, different", http.Header{"Authorization": {"Bearer lh_sk_one"}, "X-Api-Key": {"lh_sk_two"}}, ""},
		{"authorization twice", http.Header{"Authorization": {"Bearer lh_sk_one", "Bearer lh_sk_one"}}, ""},
		{"x-api-key twice", http.Header{"X-Api-Key": {"lh_sk_one", "lh_sk_one"}}, ""},
		{"one good, the other twice", http.Header{"Authorization": {"Bearer lh_sk_one"}, "X-Api-Key": {"lh_sk_one", "lh_sk_one"}}, ""},
	} {
		got, problem := sentKey(c.header)
		if got != c.want || (problem != nil) != (c.want == "") {
			t.Errorf("%s: key %q, problem %v", c.name, got, problem)
		}
		if problem != nil && (problem.Status != 401 || problem.Code != CodeUnauthorized) {
			t.Errorf("%s: %d %s", c.name, problem.Status, problem.Code)
		}
	}
}

// Whatever the headers contain, the result is one token from one of them.
func FuzzSentKey(f *testing.F) {
	f.Add("Bearer lh_sk_one", "")
	f.Add("bearer  x y", "x y")
	f.Add("Basic x", "lh_sk_two")
	f.Add("Bearer\tx", "\x00")
	f.Fuzz(func(t *testing.T, authorization, apiKey string) {
		got, problem := sentKey(http.Header{"Authorization": {authorization}, "X-Api-Key": {apiKey}})
		if (got == "") != (problem != nil) {
			t.Fatalf("key %q with problem %v", got, problem)
		}
		if alone, _ := sentKey(http.Header{"X-Api-Key": {apiKey}}); alone != "" && got != "" && alone != got {
			t.Fatalf("Authorization %q took precedence over X-Api-Key %q", authorization, apiKey)
		}
	})
}

// Whatever a query contains, the result is a publishable key that appears once in c, and any other c
// is rejected.
func FuzzQueryKey(f *testing.F) {
	publishable, err := apikey.Generate(apikey.Publishable, rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	secret, err := apikey.Generate(apikey.Secret, rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "c", "c=", "c=abc", "limit=5&%63={pk}", "c={pk}", "c={sk}", "c={pk}&c={sk}", "c={sk}&c={pk}", "c={pk}%zz", "c=+{pk}", "C={pk}", "c=%6ch_pk_", "x=c={pk}", "c={pk};c={sk}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		rawQuery := strings.NewReplacer("{pk}", publishable, "{sk}", secret).Replace(pattern)
		key, present, problem := queryKey(rawQuery)
		if (key != "") != (present && problem == nil) || problem != nil && !present {
			t.Fatalf("%q: present %v, problem %v", pattern, present, problem)
		}
		if key != "" && key != publishable { // a random secret key cannot have a valid checksum
			if parsed, err := apikey.Parse(key); err != nil || parsed.Kind != apikey.Publishable {
				t.Fatalf("%q returns a value that is not a publishable key", pattern)
			}
		}
		if problem != nil && (problem.Status != http.StatusUnauthorized || strings.Contains(problem.Message, secret)) {
			t.Fatalf("%q: %d %s", pattern, problem.Status, problem.Message)
		}
		// The standard library's reading of c is authoritative if it can parse the query at all.
		values, err := url.ParseQuery(rawQuery)
		if err != nil {
			return
		}
		if all, ok := values["c"]; ok != present || len(all) == 1 && key != "" && all[0] != key || len(all) > 1 && problem == nil {
			t.Fatalf("%q: %d values of c, present %v, problem %v", pattern, len(all), present, problem)
		}
	})
}
