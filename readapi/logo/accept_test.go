package logo_test

import (
	"strings"
	"testing"
	"unicode"

	"letterhead/internal/imaging"
	"letterhead/readapi/logo"
)

func TestNegotiate_Accept_WebPOnlyIfNamed(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]imaging.Format{
		"":                                          imaging.PNG,
		"*/*":                                       imaging.PNG,
		"image/*":                                   imaging.PNG,
		"image/avif,image/*,*/*":                    imaging.PNG,
		"image/webp":                                imaging.WebP,
		"IMAGE/WebP":                                imaging.WebP,
		"image/webp;q=0":                            imaging.PNG,
		"image/webp;q=0.000":                        imaging.PNG,
		"image/webp;q=0.001":                        imaging.WebP,
		"image/webp;q=1.000":                        imaging.WebP,
		"image/webp;q=0, */*":                       imaging.PNG,
		"image/webp;q=0.1,*/*":                      imaging.WebP, // PNG is not named
		"image/png,image/webp":                      imaging.WebP,
		"image/png;q=1,image/webp;q=0.1":            imaging.PNG,
		"image/png;q=0.1,image/webp;q=0.9":          imaging.WebP,
		"image/webp;q=0.5,image/png;q=0.5":          imaging.WebP,
		"image/webp;q=0,image/png;q=0":              imaging.PNG,
		"image/webp;q=0,image/webp;q=0.5":           imaging.WebP,
		"image/webp;Q=0":                            imaging.PNG,
		"image/webp ; q = 0":                        imaging.PNG,
		"\timage/webp\t;\tq=1\t,text/html":          imaging.WebP,
		"image/webp;level=1;q=0.5":                  imaging.WebP,
		`image/webp;a=";q=0"`:                       imaging.WebP,
		`image/webp;a="\";q=0";q=0`:                 imaging.PNG,
		`text/html;a=",image/webp,"`:                imaging.PNG,
		`text/html;a="\",image/webp,"`:              imaging.PNG,
		`text/html;a=",image/webp`:                  imaging.PNG, // unterminated string
		"image/webp;q=2":                            imaging.PNG,
		"image/webp;q=-1":                           imaging.PNG,
		"image/webp;q=":                             imaging.PNG,
		"image/webp;q":                              imaging.PNG,
		"image/webp;q=NaN":                          imaging.PNG,
		"image/webp;q=1e0":                          imaging.PNG,
		"image/webp;q=0x1":                          imaging.PNG,
		"image/webp;q=0.5.5":                        imaging.PNG,
		"image/webpx":                               imaging.PNG,
		"ximage/webp":                               imaging.PNG,
		"image / webp":                              imaging.PNG,
		",,;;,image/webp,;":                         imaging.WebP,
		"\xff,image/webp":                           imaging.WebP,
		strings.Repeat("a/b,", 99) + "image/webp":   imaging.WebP,
		strings.Repeat("a/b,", 2000) + "image/webp": imaging.PNG, // beyond the limit
		// Chromium, Firefox and Safari for an <img>.
		"image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8":                                                   imaging.WebP,
		"image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5":                                              imaging.WebP,
		"image/webp,image/avif,image/jxl,image/heic,image/heic-sequence,video/*;q=0.8,image/png,image/svg+xml,image/*;q=0.8": imaging.WebP,
		"image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5":                                                      imaging.PNG,
	} {
		if got := logo.Negotiate([]string{sent}); got != want {
			t.Errorf("format for %.100q = %s, want %s", sent, got, want)
		}
	}
	if got := logo.Negotiate(nil); got != imaging.PNG {
		t.Errorf("format without the header = %s, want %v", got, imaging.PNG)
	}
	for _, headers := range [][]string{{"text/html", "image/webp"}, {"image/webp", "\x00"}, {"image/png;q=0.5", "image/webp;q=0.6"}} {
		if got := logo.Negotiate(headers); got != imaging.WebP {
			t.Errorf("format for %q = %s, want %v", headers, got, imaging.WebP)
		}
	}
	if got := logo.Negotiate([]string{`a/b;x="`, "image/webp"}); got != imaging.WebP {
		t.Errorf("an unterminated string extends into the next header: %s, want %v", got, imaging.WebP)
	}
}

func TestParse_ExplicitFormat_IgnoresAccept(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"acme.com/icon.png?", "acme.com?format=png"} {
		path, query, _ := strings.Cut(sent, "?")
		if _, o, err := logo.Parse(path, query, []string{"image/webp"}); err != nil || o.Format != imaging.PNG || o.Negotiated {
			t.Errorf("%s: %+v %v", sent, o, err)
		}
	}
	if _, o, err := logo.Parse("acme.com", "", []string{"image/webp"}); err != nil || o.Format != imaging.WebP || !o.Negotiated {
		t.Errorf("%+v %v", o, err)
	}
}

// The result is WebP or PNG, WebP only if it is named, and does not depend on how the header is
// split and spelled.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"image/webp", "image/webp;q=0,*/*", `a/b;c="\",image/webp"`, "image/png;q=0.5 , IMAGE/webp ;Q=0.5", ",;=\"\\", strings.Repeat("x,", 300)} {
		f.Add(seed, "image/png;q=0.1")
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		got := logo.Negotiate([]string{one, other})
		if got != imaging.PNG && got != imaging.WebP {
			t.Fatalf("%q %q: %s", one, other, got)
		}
		if got == imaging.WebP && !strings.Contains(strings.ToLower(one+"\n"+other), "image/webp") {
			t.Fatalf("WebP for %q %q, which do not name it", one, other)
		}
		if strings.Count(one, ",")+strings.Count(other, ",") > 50 {
			return
		}
		if swapped := logo.Negotiate([]string{other, one}); swapped != got {
			t.Fatalf("%q %q: %s, in reverse order %s", one, other, got, swapped)
		}
		simple := !strings.ContainsFunc(one, func(r rune) bool { return r == '"' || r > unicode.MaxASCII })
		if joined := logo.Negotiate([]string{strings.ToUpper(one) + " ,\t" + other}); simple && joined != got {
			t.Fatalf("%q %q: %s, in one header %s", one, other, got, joined)
		}
		if worse := logo.Negotiate([]string{one, other, "image/png"}); got == imaging.PNG && worse != imaging.PNG {
			t.Fatalf("%q %q: %s after PNG was added", one, other, worse)
		}
	})
}
