package readapi

import (
	"net/http"
	"testing"
)

func TestTheKeyIsReadFromOneHeaderOnly(t *testing.T) {
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
		{"another scheme beside x-api-key", http.Header{"Authorization": {"Basic dXNlcg=="}, "X-Api-Key": {"lh_sk_one"}}, key},
		{"bearer beside an empty x-api-key", http.Header{"Authorization": {"Bearer lh_sk_one"}, "X-Api-Key": {""}}, key},
		{"none", http.Header{}, ""},
		{"another scheme", http.Header{"Authorization": {"Basic bGhfc2tfb25l"}}, ""},
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

// FuzzSentKey: whatever headers hold, what is read is one token that stood in one of them.
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
			t.Fatalf("Authorization %q decided against X-Api-Key %q", authorization, apiKey)
		}
	})
}
