package origin_test

import (
	"strings"
	"testing"

	"letterhead/domain/origin"
)

func TestParse_Origin_IsCanonical(t *testing.T) {
	for text, want := range map[string]string{
		"https://acme.com":              "https://acme.com",
		" HTTPS://WWW.Acme.COM:443/ ":   "https://www.acme.com",
		"https://acme.com.:8443":        "https://acme.com:8443",
		"https://bücher.example":        "https://xn--bcher-kva.example",
		"https://*.acme.com":            "https://*.acme.com",
		"https://*.Shop.acme.co.uk:444": "https://*.shop.acme.co.uk:444",
		"https://*.acme.github.io":      "https://*.acme.github.io",
		"https://intranet":              "https://intranet",
		"https://192.0.2.1":             "https://192.0.2.1",
		"https://[2001:DB8:0::1]:8443":  "https://[2001:db8::1]:8443",
		"http://localhost:3000":         "http://localhost:3000",
		"http://app.localhost:080":      "http://app.localhost",
		"http://127.0.0.1":              "http://127.0.0.1",
		"http://[::1]:5173":             "http://[::1]:5173",
	} {
		got, err := origin.Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestParse_BadOrigin_ErrorSaysWhatToChange(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "is empty",
		"acme.com":                            "has no scheme; write https://host",
		"*.acme.com":                          "write https://*.host",
		"*":                                   "write https://*.host",
		"null":                                "has no scheme",
		"ftp://acme.com":                      "does not begin with https://",
		"http://acme.com":                     "is not encrypted",
		"https://acme.com/shop":               "has a path",
		"https://acme.com?x":                  "has a path",
		"https://jane@acme.com":               "contains a user name",
		"https://":                            "has no host",
		"https://*.":                          "has no host",
		"https://a.*.acme.com":                "has a wildcard inside the host",
		"https://*acme.com":                   "has a wildcard inside the host",
		"https://*.com":                       "has a wildcard over hosts of different owners",
		"https://*.co.uk":                     "has a wildcard over hosts of different owners",
		"https://*.github.io":                 "has a wildcard over hosts of different owners",
		"https://*.192.0.2.1":                 "has a wildcard over hosts of different owners",
		"http://*.localhost":                  "has a wildcard over hosts of different owners",
		"https://a..acme.com":                 "label",
		"https://acme.com:0":                  "has no valid port",
		"https://acme.com:65536":              "has no valid port",
		"https://acme.com:":                   "has no valid port",
		"https://acme.com:+1":                 "has no valid port",
		"https://acme .com":                   "has no valid host",
		"https://a\x88.com":                   "is not UTF-8",
		"https://1.2.3":                       "ends in a number",
		"https://[::1":                        "has no ]",
		"https://[fe80::1%25eth0]":            "has no valid IPv6 address",
		"https://[127.0.0.1]":                 "has no valid IPv6 address",
		"https://[::1]x":                      "has no valid port",
		"https://" + strings.Repeat("a", 300): "has 308 characters",
		"https://" + strings.Repeat("a", 64) + ".com": "label",
	} {
		got, err := origin.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %q, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestAllows_SentOrigin_MatchesItsPattern(t *testing.T) {
	allowed := []string{"https://acme.com", "https://*.shop.acme.com", "https://app.acme.com:8443", "http://localhost:3000"}
	for sent, want := range map[string]bool{
		"https://acme.com":                   true,
		"https://acme.com:443":               true,
		"https://ACME.com":                   true,
		"https://de.shop.acme.com":           true,
		"https://a.b.shop.acme.com":          true,
		"https://app.acme.com:8443":          true,
		"http://localhost:3000":              true,
		"https://shop.acme.com":              false,
		"https://.shop.acme.com":             false,
		"https://evilshop.acme.com":          false,
		"https://de.shop.acme.com:8443":      false,
		"https://de.shop.acme.com.evil.test": false,
		"https://evil.test/.shop.acme.com":   false,
		"https://evil.test#.shop.acme.com":   false,
		"https://evil.test@acme.com":         false,
		"https://*.shop.acme.com":            false,
		"http://acme.com":                    false,
		"https://app.acme.com":               false,
		"http://localhost":                   false,
		"null":                               false,
		"":                                   false,
		"https://" + strings.Repeat("a.", 200) + "shop.acme.com": false,
	} {
		if got := origin.Allows(allowed, sent); got != want {
			t.Errorf("Allows(%q) = %v, want %v", sent, got, want)
		}
	}
}

func TestOfURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://acme.com/shop?q=1#x": "https://acme.com",
		"https://acme.com?https://b":  "https://acme.com",
		"https://acme.com":            "https://acme.com",
		"about:client":                "about:client",
		"":                            "",
	} {
		if got := origin.OfURL(url); got != want {
			t.Errorf("OfURL(%q) = %q, want %q", url, got, want)
		}
	}
}

// FuzzParse checks that a parsed origin is canonical, covers itself and, if it has a wildcard, only hosts below its own.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"https://acme.com", "https://*.acme.co.uk:8443", "http://localhost:3000", "https://[::ffff:192.0.2.1]:1", "https://bücher.example.",
		"https://*.*.acme.com", "https://acme.com:443/", "HTTPS://ACME.COM", "https://%61cme.com", "https://acme.com\\@evil.test", "https://xn--a.example",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := origin.Parse(text)
		if err != nil {
			return
		}
		if again, err := origin.Parse(parsed); err != nil || again != parsed {
			t.Fatalf("Parse(%q) = %q, but Parse of that = %q, %v", text, parsed, again, err)
		}
		if len(parsed) > origin.MaxBytes || strings.ContainsAny(parsed[len("https://"):], "/?#@\\ ") {
			t.Fatalf("Parse(%q) = %q, which is no origin", text, parsed)
		}
		allowed := []string{parsed}
		before, after, below := strings.Cut(parsed, "*.")
		if !below {
			if !origin.Allows(allowed, parsed) {
				t.Fatalf("%q does not allow itself", parsed)
			}
			return
		}
		if origin.Allows(allowed, before+after) || origin.Allows(allowed, before+"evil"+after) {
			t.Fatalf("%q allows a host that is not below its own", parsed)
		}
		if host := before + "a." + after; len(host) < 200 && !origin.Allows(allowed, host) {
			t.Fatalf("%q does not allow %q", parsed, host)
		}
	})
}
