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

// Whatever ?key contains, only a publishable key is returned, a secret one is reported and not
// used, and a key in a header has precedence.
func FuzzLogoKey(f *testing.F) {
	for _, seed := range []string{"", "key=", "key=lh_pk_x", "key=lh_sk_x&key=a", "k%65y=%6ch_sk_", "key=%zz", "a=b&key=+lh_sk_+", "key=a;key=lh_sk_b", "%6"} {
		f.Add(seed)
	}
	const inHeader = "lh_sk_whatever"
	f.Fuzz(func(t *testing.T, query string) {
		secret, sent := false, false
		for _, pair := range strings.Split(query, "&") { // like url.ParseQuery, except for its rejection of semicolons
			name, value, _ := strings.Cut(pair, "=")
			if name, err := url.QueryUnescape(name); err != nil || name != "key" {
				continue
			}
			unescaped, err := url.QueryUnescape(value)
			unescaped = strings.TrimSpace(unescaped)
			secret = secret || strings.HasPrefix(unescaped, "lh_sk_") || strings.HasPrefix(value, "lh_sk_")
			sent = sent || err != nil || unescaped != ""
		}
		r := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{}}
		key, status := logoKey(r, false)
		parsed, err := apikey.Parse(key)
		switch {
		case key != "" && (err != nil || parsed.Kind != apikey.Publishable || status != ""):
			t.Fatalf("%q: %q, %q", query, key, status)
		case secret != (status == keySecretInURL):
			t.Fatalf("%q: %q, contains a secret: %t", query, status, secret)
		case sent != (key != "" || status != ""):
			t.Fatalf("%q: %q, %q, key sent: %t", query, key, status, sent)
		}
		r.Header.Set("X-Api-Key", inHeader)
		key, status = logoKey(r, false)
		if key != inHeader || secret != (status == keySecretInURL) || !secret && status != "" {
			t.Fatalf("%q in addition to a header: %q, %q", query, key, status)
		}
	})
}

// Clients of other services send the tokens of these.
func TestLogoKey_AtProfiles_TokensOfOtherServicesCountAsNone(t *testing.T) {
	key := testmust.Get(apikey.Generate(apikey.Publishable, rand.Reader))(t)
	for _, c := range []struct {
		query, header, value string
		key                  string
		status, elsewhere    keyStatus
	}{
		{"key=pk_abc", "", "", "", "", keyInvalid},
		{"key=%zz", "", "", "", "", keyInvalid},
		{"key=pk_abc&key=" + key, "", "", key, "", keyInvalid},
		{"", "Authorization", "Bearer sk_abc", "", "", keyInvalid},
		{"", "Authorization", "Basic YTpi", "", "", ""},
		{"", "X-Api-Key", "abc", "", "", ""},
		{"key=" + key, "Authorization", "Bearer sk_abc", key, "", ""},
		{"key=lh_pk_mistyped", "", "", "", keyInvalid, keyInvalid},
		{"key=lh_sk_x", "Authorization", "Bearer sk_abc", "", keySecretInURL, keySecretInURL},
		{"key=" + key, "X-Api-Key", "abc", key, "", ""},
	} {
		r := &http.Request{URL: &url.URL{RawQuery: c.query}, Header: http.Header{}}
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		if got, status := logoKey(r, true); got != c.key || status != c.status {
			t.Errorf("%s %s %s: %q, %q; want %q, %q", c.query, c.header, c.value, got, status, c.key, c.status)
		}
		if _, status := logoKey(r, false); c.header != "X-Api-Key" && status != c.elsewhere {
			t.Errorf("%s %s %s: %q elsewhere, want %q", c.query, c.header, c.value, status, c.elsewhere)
		}
	}
	for _, h := range []http.Header{
		{"X-Api-Key": {"abc"}, "Authorization": {"Bearer " + key}},
		{"X-Api-Key": {"abc", key}},
		{"X-Api-Key": {"abc", "def"}, "Authorization": {"Basic YTpi", "Bearer " + key}},
		{"X-Api-Key": {key}, "Authorization": {"Bearer sk_abc"}},
	} {
		r := &http.Request{URL: &url.URL{}, Header: h}
		if got, status := logoKey(r, true); got != key || status != "" {
			t.Errorf("%v: %q, %q", h, got, status)
		}
	}
	other := testmust.Get(apikey.Generate(apikey.Publishable, rand.Reader))(t)
	r := &http.Request{URL: &url.URL{}, Header: http.Header{"X-Api-Key": {other}, "Authorization": {"Bearer " + key}}}
	if got, status := logoKey(r, true); got != "" || status != keyInvalid {
		t.Errorf("two keys of ours: %q, %q", got, status)
	}
}
