package readapi

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"letterhead/internal/apikey"
	"letterhead/internal/testmust"
)

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

// Whatever a query contains, the result is a publishable key that appears once in c, and any other c is rejected.
func FuzzQueryKey(f *testing.F) {
	publishable := testmust.Get(apikey.Generate(apikey.Publishable, rand.Reader))(f)
	secret := testmust.Get(apikey.Generate(apikey.Secret, rand.Reader))(f)
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
		if problem != nil && (problem.Status != http.StatusUnauthorized || strings.Contains(problem.Text, secret)) {
			t.Fatalf("%q: %d %s", pattern, problem.Status, problem.Text)
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
