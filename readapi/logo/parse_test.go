package logo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"letterhead/domain/brand"
	"letterhead/internal/imaging"
	"letterhead/readapi/logo"
)

// plain are the options of a request for just a domain.
var plain = logo.Options{Type: logo.Icon, Size: logo.DefaultSize, Format: imaging.PNG, Negotiated: true, Fallback: logo.Monogram}

func with(changes ...func(*logo.Options)) logo.Options {
	o := plain
	for _, change := range changes {
		change(&o)
	}
	return o
}

func kind(k logo.Type) func(*logo.Options)   { return func(o *logo.Options) { o.Type = k } }
func size(n int) func(*logo.Options)         { return func(o *logo.Options) { o.Size = n } }
func theme(t logo.Theme) func(*logo.Options) { return func(o *logo.Options) { o.Theme = t } }
func noPlate(o *logo.Options)                { o.NoPlate = true }
func ground(c imaging.RGB) func(*logo.Options) {
	return func(o *logo.Options) { o.Background = logo.Background{Color: c, Set: true} }
}
func fallback(f logo.Fallback) func(*logo.Options) { return func(o *logo.Options) { o.Fallback = f } }
func format(f imaging.Format) func(*logo.Options) {
	return func(o *logo.Options) { o.Format, o.Negotiated = f, false }
}

func TestParse_ValidRequest_ReturnsOptions(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]logo.Options{
		"acme.com":                                  plain,
		"acme.com/":                                 plain,
		"acme.com?":                                 plain,
		"acme.com?type=icon":                        plain,
		"acme.com?type=symbol":                      with(kind(logo.Symbol)),
		"acme.com?type=logo":                        with(kind(logo.Full)),
		"acme.com/icon":                             plain,
		"acme.com/symbol/":                          with(kind(logo.Symbol)),
		"acme.com/logo":                             with(kind(logo.Full)),
		"acme.com/type/logo":                        with(kind(logo.Full)),
		"acme.com/logo?type=logo":                   with(kind(logo.Full)),
		"acme.com/type/icon.png":                    with(format(imaging.PNG)),
		"acme.com/h/64/type/logo.svg?type=logo":     with(kind(logo.Full), size(64), format(imaging.SVG)),
		"acme.com/%6C%6fgo":                         with(kind(logo.Full)),
		"acme.com/logo.svg":                         with(kind(logo.Full), format(imaging.SVG)),
		"acme.com/icon.png/w/64":                    with(size(64), format(imaging.PNG)),
		"acme.com/w/64/icon.webp":                   with(size(64), format(imaging.WebP)),
		"acme.com/symbol.jpeg":                      with(kind(logo.Symbol), format(imaging.JPEG)),
		"acme.com/icon.png?w=32":                    with(size(32), format(imaging.PNG)),
		"acme.com?size=16":                          with(size(16)),
		"acme.com?size=15":                          with(size(16)),
		"acme.com?size=1":                           with(size(16)),
		"acme.com?size=1024":                        with(size(1024)),
		"acme.com?size=1025":                        with(size(1024)),
		"acme.com?size=0000064":                     with(size(64)),
		"acme.com?size=%36%34":                      with(size(64)),
		"acme.com/w/1/h/2":                          with(size(16)),
		"acme.com/w/200":                            with(size(200)),
		"acme.com/h/200":                            with(size(200)),
		"acme.com/w/200/h/100":                      with(size(200)),
		"acme.com/h/200/w/100":                      with(size(200)),
		"acme.com/w/2000?size=3000":                 with(size(1024)), // both are clamped, so they agree
		"acme.com/w/200?width=200":                  with(size(200)),
		"acme.com?size=" + strings.Repeat("9", 20):  with(size(1024)),
		"acme.com?size=" + strings.Repeat("9", 400): with(size(1024)),
		"acme.com/w/" + strings.Repeat("9", 20):     with(size(1024)),
		"acme.com?width=30":                         with(size(30)),
		"acme.com?width=30&w=40":                    with(size(40)),
		"acme.com?width=30&w=40&size=50":            with(size(50)),
		"acme.com?width=30&size=50":                 with(size(50)),
		"acme.com?format=webp":                      with(format(imaging.WebP)),
		"acme.com?format=png":                       with(format(imaging.PNG)),
		"acme.com?format=svg":                       with(format(imaging.SVG)),
		"acme.com?format=jpeg":                      with(format(imaging.JPEG)),
		"acme.com/icon.svg?format=svg":              with(format(imaging.SVG)),
		"acme.com?theme=dark":                       with(theme(logo.Dark)),
		"acme.com?theme=light":                      with(theme(logo.Light)),
		"acme.com?background=dark":                  with(theme(logo.Light)),
		"acme.com?background=auto-dark":             with(theme(logo.Light), ground(imaging.DarkPage)),
		"acme.com?background=auto-light":            with(theme(logo.Dark), ground(imaging.White)),
		"acme.com?background=light":                 with(theme(logo.Dark)),
		"acme.com?background=0b5fff":                with(theme(logo.Light), ground(imaging.RGB{R: 0x0b, G: 0x5f, B: 0xff})),
		"acme.com?background=FFee00":                with(theme(logo.Dark), ground(imaging.RGB{R: 0xff, G: 0xee})),
		"acme.com?background=000000":                with(theme(logo.Light), ground(imaging.Black)),
		"acme.com?background=ffffff&theme=light":    with(theme(logo.Light)),
		"acme.com/theme/dark?background=121212":     with(theme(logo.Dark)),
		"acme.com?plate=auto":                       plain,
		"acme.com?plate=never":                      with(noPlate),
		"acme.com?background=light&theme=light":     with(theme(logo.Light)),
		"acme.com/theme/dark?background=dark":       with(theme(logo.Dark)),
		"acme.com?fallback=monogram":                plain,
		"acme.com?fallback=transparent":             with(fallback(logo.Transparent)),
		"acme.com?fallback=404":                     with(fallback(logo.NotFound)),
		"acme.com/fallback/lettermark":              plain,
		"acme.com/fallback/transparent":             with(fallback(logo.Transparent)),
		"acme.com/fallback/404":                     with(fallback(logo.NotFound)),
		"acme.com/fallback/404?fallback=404":        with(fallback(logo.NotFound)),
		// Parameters that are unknown, or not of this endpoint.
		"acme.com?c=lh_pk_x&utm_source=%zz&SIZE=x&size[]=x&h=x&key=&key=": plain,
		"acme.com/fallback/lettermark/theme/dark/h/256/w/256/icon?c=x":    with(size(256), theme(logo.Dark)),
	} {
		path, query, _ := strings.Cut(sent, "?")
		domain, got, err := logo.Parse(path, query, nil)
		if err != nil || got != want || domain != "acme.com" {
			t.Errorf("%.100s is %q %+v, want %+v: %v", sent, domain, got, want, err)
		}
	}
}

// Every published form of the compatible third-party URLs is parsed on a host of its own, and /logo stays as strict as
// the specification.
func TestParsePublished_EveryForm_ReturnsOptions(t *testing.T) {
	t.Parallel()
	domain := func(changes ...func(*logo.Options)) published {
		return published{"domain", "acme.com", with(changes...), true}
	}
	only := func(p published) published { p.strict = false; return p }
	named := func(kind logo.Kind, name string, changes ...func(*logo.Options)) published {
		return published{kind, name, with(changes...), false}
	}
	png, jpeg, dark := format(imaging.PNG), format(imaging.JPEG), theme(logo.Dark)
	for sent, want := range map[string]published{
		"acme.com?c=x":           domain(),
		"acme.com":               domain(),
		"acme.com/icon":          domain(),
		"acme.com/w/64/h/64?c=x": domain(size(64)),
		"acme.com/w/400/h/400/fallback/lettermark":                          domain(size(400)),
		"acme.com/icon/fallback/lettermark/w/40/h/40?c=x":                   domain(size(40)),
		"acme.com/fallback/lettermark/theme/dark/h/256/w/256/icon?c=x":      domain(size(256), dark),
		"acme.com/w/400/h/400/theme/dark/fallback/lettermark/type/icon?c=x": domain(size(400), dark),
		"acme.com/w/128/h/128/logo?c=x":                                     domain(kind(logo.Full)),
		"acme.com/logo/theme/light/":                                        domain(kind(logo.Full), theme(logo.Light)),
		"acme.com/h/72/logo.png?c=x":                                        domain(kind(logo.Full), size(72), png),
		"acme.com/type/icon.png":                                            domain(png),
		"acme.com/type/symbol.webp/w/20":                                    domain(kind(logo.Symbol), size(20), format(imaging.WebP)),
		"acme.com/theme/dark/type/logo.png":                                 domain(kind(logo.Full), dark, png),
		"acme.com/fallback/404/icon?c=x":                                    domain(fallback(logo.NotFound)),
		"acme.com/fallback/transparent/icon":                                domain(fallback(logo.Transparent)),
		"acme.com/fallback/brandfetch/icon?c=x":                             only(domain()),
		"acme.com?fallback=brandfetch":                                      only(domain()),
		"acme.com?fallback=lettermark":                                      only(domain()),
		"acme.com/icon.jpg":                                                 only(domain(jpeg)),
		"acme.com/type/icon.jpg?format=jpeg":                                only(domain(jpeg)),
		"acme.com?format=jpg&size=128":                                      only(domain(jpeg)),
		"domain/acme.com":                                                   only(domain()),
		"domain/acme.com/":                                                  only(domain()),
		"domain/acme.com?c=x":                                               only(domain()),
		"domain/acme.com/w/128/h/128/fallback/lettermark/icon?c=x":          only(domain()),
		"domain/acme.com/w/64/h/64/theme/dark/fallback/404/type/icon":       only(domain(size(64), dark, fallback(logo.NotFound))),
		"domain/acme.com/type/logo.svg":                                     only(domain(kind(logo.Full), format(imaging.SVG))),
		"ticker/ACME":                                                       named("ticker", "ACME"),
		"ticker/ACME?c=x":                                                   named("ticker", "ACME"),
		"ticker/ACME/w/64/h/64/icon?c=x":                                    named("ticker", "ACME", size(64)),
		"acme.com/ICON.JPG/THEME/Dark?FORMAT=x&fallback=404":                named("domain", "acme.com", dark, jpeg, fallback(logo.NotFound)),
		"ticker/ACME.L":                                                     named("ticker", "ACME.L"),
		"ticker/7203.T/symbol.png":                                          named("ticker", "7203.T", kind(logo.Symbol), png),
		"ticker/NYSE%3AACME/fallback/404":                                   named("ticker", "NYSE:ACME", fallback(logo.NotFound)),
		"isin/US0000000000":                                                 named("isin", "US0000000000"),
		"isin/US0000000000/theme/dark/logo":                                 named("isin", "US0000000000", kind(logo.Full), dark),
		"crypto/ACM":                                                        named("crypto", "ACM"),
		"crypto/ACM/w/32/h/32/fallback/transparent/icon.png":                named("crypto", "ACM", size(32), png, fallback(logo.Transparent)),
	} {
		path, query, _ := strings.Cut(sent, "?")
		id, got, err := logo.ParsePublished(path, query, nil)
		if err != nil || id != (logo.Identifier{Kind: want.kind, Name: want.name}) || got != want.options {
			t.Errorf("%s is %+v %+v, want %+v: %v", sent, id, got, want, err)
		}
		if name, strict, err := logo.Parse(path, query, nil); want.strict && (err != nil || name != want.name || strict != want.options) {
			t.Errorf("/logo/%s is %q %+v, want %+v: %v", sent, name, strict, want, err)
		} else if first := logo.Kind(strings.Split(path, "/")[0]); !want.strict && err == nil && !slices.Contains([]logo.Kind{"domain", "ticker", "isin", "crypto"}, first) {
			t.Errorf("/logo/%s is valid", sent)
		}
	}
	for sent, says := range map[string]string{
		"acme.com/type/fallback/404/w/400/h/400": "type must be icon, symbol or logo", "acme.com/banner": "not a logo option", "acme.com/w/0/icon": "whole number",
		"acme.com/icon.gif": "webp, png, svg, jpeg or jpg", "acme.com/type/icon.": "The ending of icon", "acme.com/type/.png": "type must be", "acme.com/icon.png?format=jpg": "different values of format",
		"acme.com/icon.GIF": "The ending of icon", "acme.com?format=gif": "parameter format", "acme.com/theme/auto": "light or dark", "acme.com/fallback/none": "lettermark",
		"ticker": "lacks the identifier", "ticker/": "lacks the identifier", "domain//": "lacks the identifier", "ticker/ACME/w": "has no value", "crypto/ACM/icon/icon": "more than once",
		"isin/US0000000000?size=x": "parameter size", "ticker//icon": "lacks a domain", "": "lacks a domain",
	} {
		path, query, _ := strings.Cut(sent, "?")
		if id, o, err := logo.ParsePublished(path, query, nil); err == nil || !strings.Contains(err.Error(), says) || id != (logo.Identifier{}) || o != (logo.Options{}) {
			t.Errorf("%s is %+v %+v, %v; want an error with %q", sent, id, o, err, says)
		}
	}
}

// published is what a URL of the third party's form means.
type published struct {
	kind    logo.Kind
	name    string
	options logo.Options
	strict  bool // also a form of /logo
}

// Each case has words of the expected error.
func TestParse_InvalidRequest_ExplainsError(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"":                                        "lacks a domain",
		"/":                                       "lacks a domain",
		"/icon":                                   "lacks a domain",
		"?size=64":                                "lacks a domain",
		"%zz":                                     "path is not percent-encoded",
		"acme.com/%zz":                            "path is not percent-encoded",
		"acme.com//":                              "empty segment",
		"acme.com//icon":                          "empty segment",
		"acme.com/icon//":                         "empty segment",
		"acme.com/x":                              `has "x", which is not a logo option`,
		"acme.com/Icon":                           "not a logo option",
		"acme.com/icons":                          "not a logo option",
		"acme.com/.png":                           "not a logo option",
		"acme.com/other":                          "not a logo option",
		"acme.com/..":                             "not a logo option",
		"acme.com/size/64":                        "not a logo option",
		"acme.com/background/dark":                "not a logo option",
		"acme.com/theme%2Fdark":                   "not a logo option",
		"acme.com/icon/x":                         "not a logo option",
		"acme.com/" + strings.Repeat("x", 999):    "not a logo option",
		"acme.com/icon.":                          "The ending of icon must be webp, png, svg or jpeg",
		"acme.com/icon.jpg":                       "The ending of icon",
		"acme.com/icon.PNG":                       "The ending of icon",
		"acme.com/icon.png.png":                   "The ending of icon",
		"acme.com/w":                              "The path option w has no value",
		"acme.com/w/":                             "The path option w has no value",
		"acme.com/w//icon":                        "The path option w has no value",
		"acme.com/icon/fallback":                  "The path option fallback has no value. Put the value after it, as in /logo/github.com/fallback/lettermark.",
		"acme.com/w/0":                            "The path option w must be a whole number",
		"acme.com/h/auto":                         "The path option h must be a whole number",
		"acme.com/w/64/h/-1":                      "The path option h must be a whole number",
		"acme.com/w/h/64":                         "The path option w must be a whole number",
		"acme.com/theme/icon":                     `The path option theme must be light or dark, not "icon"`,
		"acme.com/theme/DARK":                     "The path option theme",
		"acme.com/fallback/monogram":              "The path option fallback must be lettermark, transparent or 404",
		"acme.com/fallback/none":                  "The path option fallback",
		"acme.com/w/64/w/64":                      "the option w more than once",
		"acme.com/icon/icon":                      "the option type more than once",
		"acme.com/icon/symbol":                    "the option type more than once",
		"acme.com/icon/type/icon":                 "the option type more than once",
		"acme.com/type/icon/w/64/icon.png":        "the option type more than once",
		"acme.com/theme/dark/theme/light":         "the option theme more than once",
		"acme.com/icon?type=symbol":               "The path and the query contain different values of type",
		"acme.com/type/logo?type=icon":            "different values of type",
		"acme.com/icon?type=":                     "The parameter type must be icon, symbol or logo",
		"acme.com/w/64?size=65":                   "different values of size",
		"acme.com/icon.png?format=webp":           "different values of format",
		"acme.com/theme/dark?theme=light":         "different values of theme",
		"acme.com/fallback/404?fallback=monogram": "different values of fallback",
		"acme.com?scheme=light":                   "The parameter scheme must be auto",
		"acme.com?scheme=":                        "The parameter scheme must be auto",
		"acme.com?theme=auto":                     "The parameter theme must be light or dark",
		"acme.com?scheme=auto&theme=dark":         "Remove it, or theme, any format but svg, and any background but auto-light and auto-dark",
		"acme.com/icon.png?scheme=auto":           "Remove it, or theme, any format but svg, and any background but auto-light and auto-dark",
		"acme.com?scheme=auto&format=webp":        "Remove it, or theme, any format but svg, and any background but auto-light and auto-dark",
		"acme.com?scheme=auto&background=0b5fff":  "any background but auto-light and auto-dark",
		"acme.com?scheme=auto&background=dark":    "any background but auto-light and auto-dark",
		"acme.com?scheme=auto&scheme=auto":        "scheme",
		"acme.com?size=":                          "The parameter size must be a whole number of at least 1",
		"acme.com?size":                           "The parameter size",
		"acme.com?size=0":                         "The parameter size",
		"acme.com?size=000":                       "The parameter size",
		"acme.com?size=-1":                        "The parameter size",
		"acme.com?size=%2B64":                     "The parameter size",
		"acme.com?size=64.0":                      "The parameter size",
		"acme.com?size=1e2":                       "The parameter size",
		"acme.com?size=0x40":                      "The parameter size",
		"acme.com?size=1_0":                       "The parameter size",
		"acme.com?size=+64":                       "The parameter size",
		"acme.com?size=64px":                      "The parameter size",
		"acme.com?size=６４":                        "The parameter size",
		"acme.com?size=64&size=64":                "The parameter size is given more than once",
		"acme.com?size=%zz":                       "The parameter size is not percent-encoded",
		"acme.com?size=64&w=x":                    "The parameter w must be a whole number",
		"acme.com?size=64&width=0":                "The parameter width must be a whole number",
		"acme.com?type=other":                     "The parameter type must be icon, symbol or logo",
		"acme.com?type=Icon":                      "The parameter type",
		"acme.com?format=jpg":                     "The parameter format must be webp, png, svg or jpeg",
		"acme.com?format=gif":                     "The parameter format",
		"acme.com?format=":                        "The parameter format",
		"acme.com?theme=":                         "The parameter theme must be light or dark",
		"acme.com?theme=dark&background=x":        "The parameter background must be light, dark, auto-light, auto-dark or six hexadecimal digits such as 0b5fff, without #",
		"acme.com?background=%230b5fff":           "without #",
		"acme.com?background=fff":                 "six hexadecimal digits",
		"acme.com?background=0b5fff80":            "six hexadecimal digits",
		"acme.com?background=0b5ffg":              "six hexadecimal digits",
		"acme.com?background=Dark":                "The parameter background",
		"acme.com?background=":                    "The parameter background",
		"acme.com?background=０b5fff":              "The parameter background",
		"acme.com?background=dark&background=000": "The parameter background is given more than once",
		"acme.com?plate=always":                   "The parameter plate must be auto or never",
		"acme.com?plate=":                         "The parameter plate must be auto or never",
		"acme.com/plate/never":                    "not a logo option",
		"acme.com?fallback=lettermark":            "The parameter fallback must be monogram, transparent or 404",
		"acme.com?fallback=":                      "The parameter fallback",
		"acme.com/" + strings.Repeat("/", 5000):   "longer than 4096 bytes",
	} {
		path, query, _ := strings.Cut(sent, "?")
		_, got, err := logo.Parse(path, query, []string{"image/webp"})
		var rejected *logo.InvalidError
		if !errors.As(err, &rejected) || !strings.Contains(rejected.Sentence, want) || got != (logo.Options{}) {
			t.Errorf("%.100s: %v (%+v), want %s", sent, err, got, want)
		} else if len(rejected.Sentence) > 400 || !strings.HasSuffix(rejected.Sentence, ".") {
			t.Errorf("%.100s: %s", sent, rejected.Sentence)
		}
	}
}

// Every order of five options gives the same result.
func TestParse_PathOptions_InAnyOrder(t *testing.T) {
	t.Parallel()
	options := []string{"w/300", "h/256", "theme/light", "fallback/transparent", "symbol.jpeg"}
	want := with(kind(logo.Symbol), size(300), theme(logo.Light), fallback(logo.Transparent), format(imaging.JPEG))
	orders := 0
	var try func(taken []string)
	try = func(taken []string) {
		if len(taken) == len(options) {
			orders++
			for _, end := range []string{"", "/"} {
				path := "acme.com/" + strings.Join(taken, "/") + end
				if _, got, err := logo.Parse(path, "c=x", nil); err != nil || got != want {
					t.Errorf("%s is %+v, want %+v: %v", path, got, want, err)
				}
			}
		}
		for _, option := range options {
			if !slices.Contains(taken, option) {
				try(append(slices.Clone(taken), option))
			}
		}
	}
	try(nil)
	if orders != 120 {
		t.Errorf("%d orders of options were tried, want 120", orders)
	}
}

func TestParse_Domain_DecodedOnce(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"acme.com": "acme.com", "ACME.com": "ACME.com", "%61cme.com/icon": "acme.com", "b%C3%BCcher.de": "bücher.de", "a%2Fb/icon": "a/b",
		"%2561": "%61", "a+b": "a+b", "a%00": "a\x00",
	} {
		if got, _, err := logo.Parse(sent, "", nil); err != nil || got != want {
			t.Errorf("%s is %q, want %q: %v", sent, got, want, err)
		}
	}
	longest := strings.Repeat("%61", 1024) + "/w/256/h/256/theme/dark/type/icon/fallback/lettermark/"
	if _, _, err := logo.Parse(longest, "", nil); err != nil {
		t.Errorf("the longest domain with every option: %.100v", err)
	}
}

// For any input the options are within their limits, or an error explains what is wrong; irrelevant
// parts have no effect.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"acme.com", "acme.com/icon", "acme.com/fallback/lettermark/theme/dark/h/256/w/256/icon.png", "acme.com/type/logo/", "//", "%zz", "a%2Fb",
	} {
		for _, query := range []string{"", "size=64&w=1&width=2", "theme=dark&background=light", "background=0b5FFf&plate=never", "background=%230b5fff", "background=dark&plate=auto", "format=svg&fallback=404&type=icon", "size=%zz&size=1", "size=99999999999999999999"} {
			f.Add(seed, query, "image/avif,image/webp;q=0.8,*/*")
		}
	}
	f.Fuzz(func(t *testing.T, path, query, accept string) {
		domain, o, err := logo.Parse(path, query, []string{accept})
		var rejected *logo.InvalidError
		if err != nil {
			if !errors.As(err, &rejected) || rejected.Sentence == "" || o != (logo.Options{}) || domain != "" {
				t.Fatalf("%q %q: %v, %q %+v", path, query, err, domain, o)
			}
			return
		}
		_, _ = brand.RegistrableDomain(domain)
		if !slices.Contains([]string{"domain", "ticker", "isin", "crypto"}, domain) {
			if id, same, err := logo.ParsePublished(path, query, []string{accept}); err != nil || same != o || id != (logo.Identifier{Kind: logo.Domain, Name: domain}) {
				t.Fatalf("%q %q is %+v on a separate host, want %+v: %v", path, query, same, o, err)
			}
		}
		switch {
		case !slices.Contains([]logo.Type{logo.Icon, logo.Symbol, logo.Full}, o.Type),
			o.Size < logo.MinSize || o.Size > logo.MaxSize,
			!slices.Contains([]imaging.Format{imaging.WebP, imaging.PNG, imaging.SVG, imaging.JPEG}, o.Format),
			!slices.Contains([]logo.Theme{logo.Any, logo.Light, logo.Dark}, o.Theme),
			!slices.Contains([]logo.Fallback{logo.Monogram, logo.Transparent, logo.NotFound}, o.Fallback),
			o.Background.Set && o.Theme == logo.Any, !o.Background.Set && o.Background != (logo.Background{}),
			domain == "":
			t.Fatalf("%q %q: %q %+v", path, query, domain, o)
		}
		if o.Negotiated && o.Format != logo.Negotiate([]string{accept}) {
			t.Fatalf("%q %q %q: %s", path, query, accept, o.Format)
		}
		if values, err := url.ParseQuery(query); err == nil && values.Has("format") == o.Negotiated && !strings.Contains(path, ".") && !strings.Contains(path, "%") {
			t.Fatalf("%q %q: negotiated is %t", path, query, o.Negotiated)
		}
		// Written out in full, in another order and with ignored parts, it is the same request.
		options := []string{fmt.Sprintf("w/%d", o.Size), "type/" + string(o.Type), "fallback/" + map[bool]string{true: "lettermark", false: string(o.Fallback)}[o.Fallback == logo.Monogram]}
		again := "c=x&%zz=1"
		switch {
		case o.Background.Set:
			again += "&background=" + o.Background.Color.Hex()[1:]
		case o.Theme != logo.Any:
			options = append(options, "theme/"+string(o.Theme))
		}
		rand.Shuffle(len(options), func(i, j int) { options[i], options[j] = options[j], options[i] })
		if o.NoPlate {
			again += "&plate=never"
		}
		if o.Adaptive {
			again += "&scheme=auto"
		}
		if !o.Negotiated {
			again += "&format=" + string(o.Format)
		}
		written := url.PathEscape(domain) + "/" + strings.Join(options, "/") + "/"
		if d, same, err := logo.Parse(written, again, []string{accept}); len(written) < 4000 && (err != nil || same != o || d != domain) {
			t.Fatalf("%q %q is %+v, rewritten as %q %q is %+v: %v", path, query, o, written, again, same, err)
		}
	})
}
