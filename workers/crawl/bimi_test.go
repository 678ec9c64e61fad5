package crawl_test

import (
	"strings"
	"testing"

	"letterhead/workers/crawl"
)

func TestBIMI_Records_OnlyValidNameLogo(t *testing.T) {
	for record, want := range map[string]string{
		"v=BIMI1; l=https://acme.com/b.svg":                                     "https://acme.com/b.svg",
		"v=BIMI1; l=https://acme.com/b.svg; a=https://acme.com/c.pem":           "https://acme.com/b.svg",
		" V = bimi1 ;L=https://acme.com/b.svg;":                                 "https://acme.com/b.svg",
		"v=BIMI1; a=x; l= https://acme.com/b.svg , https://acme.com/second.svg": "https://acme.com/b.svg",
		"v=BIMI1; l=http://acme.com/b.svg":                                      "",
		"v=BIMI1; l=; a=;":                                                      "",
		"v=BIMI1; l=data:image/svg+xml,x":                                       "",
		"v=BIMI1; l=//acme.com/b.svg":                                           "",
		"v=BIMI1; l=https://user:secret@acme.com/b.svg":                         "",
		"v=BIMI1":                      "",
		"l=https://acme.com/b.svg":     "",
		"v=spf1; l=https://acme.com/b": "",
		"":                             "",
	} {
		got := ""
		if u := crawl.BIMILogo([]string{record}); u != nil {
			got = u.String()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", record, got, want)
		}
	}
	if u := crawl.BIMILogo([]string{"x", "v=BIMI1; l=https://acme.com/1", "v=BIMI1; l=https://acme.com/2"}); u == nil || u.Path != "/1" {
		t.Errorf("several records: %v", u)
	}
}

func FuzzBIMI(f *testing.F) {
	for _, seed := range []string{"v=BIMI1; l=https://acme.com/b.svg; a=", "v=BIMI1;l=https://[::1]/", "v=BIMI1;;l=\x00https://a", "=;=;="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, record string) {
		if u := crawl.BIMILogo([]string{record}); u != nil && (u.Scheme != "https" || u.Host == "" || u.User != nil || !strings.Contains(strings.ToLower(record), "bimi1")) {
			t.Fatalf("%q gave %s", record, u)
		}
	})
}
