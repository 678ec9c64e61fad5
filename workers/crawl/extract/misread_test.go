package extract_test

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/encoding/htmlindex"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
	"letterhead/workers/crawl/table"
)

// A text that was decoded wrongly, here or before it was stored, is neither a name nor a description.
func TestName_TextDecodedWrongly_IsNotServed(t *testing.T) {
	long := strings.Repeat("We repair clocks and watches of all kinds in our workshop. ", 5)
	for name, c := range map[string]struct{ contentType, lang, text, want string }{
		"replacement character":       {"text/html; charset=utf-8", "de", "Uhren M\ufffdller", "Hofuhr"},
		"C1 control":                  {"text/html; charset=utf-8", "de", "Uhren \u0081M\u0082ller", "Hofuhr"},
		"undefined byte":              {"text/html; charset=windows-1251", "ru", "\xd7\xe0\xf1\xfb \x98", "Hofuhr"},
		"cut pair":                    {"text/html; charset=euc-jp", "ja", "\xbb\xfe\xb7\xd7\xc5\xb9\xff\x80", "Hofuhr"},
		"Shift_JIS taken for Latin-1": {"text/html; charset=utf-8", "en", "ŽžŒv“X‚Ì“ú–{", "Hofuhr"},
		"GBK taken for Latin-1":       {"text/html; charset=utf-8", "zh", "ÂÌÒ¶²èÒµ", "Hofuhr"},
		"letters of another language": {"text/html; charset=utf-8", "de", "Часовщик", "Hofuhr"},
		"UTF-8 taken for Latin-1":     {"text/html; charset=utf-8", "de", "Uhren MÃ¼ller", "Uhren Müller"},
		"Cyrillic taken for Latin-1":  {"text/html; charset=utf-8", "ru", "Ð§Ð°ÑÐ¾Ð²Ð¾Ð¹ Ð´Ð²Ð¾Ñ€", ""},
		"many marks":                  {"text/html; charset=utf-8", "sv", "Åäö Über Öl", "Åäö Über Öl"},
		"many Czech marks":            {"text/html; charset=utf-8", "cs", "Říční", "Říční"},
		"many Vietnamese marks":       {"text/html; charset=utf-8", "vi", "Đồ Gỗ Ấn Độ", "Đồ Gỗ Ấn Độ"},
		"dots between letters":        {"text/html; charset=utf-8", "en", "K·O·M·O·R·E·B", "K·O·M·O·R·E·B"},
		"a capital before a quote":    {"text/html; charset=utf-8", "en", "JOSÉ’S HOFUHR", "JOSÉ’S HOFUHR"},
		"a capital before a sign":     {"text/html; charset=utf-8", "en", "CAFFÈ™", "CAFFÈ"},
		"a word of two letters":       {"text/html; charset=utf-8", "ru", "Её", "Её"},
		"UTF-8 capitals":              {"text/html; charset=utf-8", "de", "UHREN MÃœLLER", "UHREN MÜLLER"},
		"UTF-8 sharp s":               {"text/html; charset=utf-8", "de", "STRAÃŸE", "STRAßE"},
		"UTF-8 Romanian":              {"text/html; charset=utf-8", "ro", "BucureÈ™ti", "București"},
		"UTF-8 Vietnamese":            {"text/html; charset=utf-8", "vi", "Viá»‡t Hofuhr", "Việt Hofuhr"},
		"UTF-8 apostrophe":            {"text/html; charset=utf-8", "en", "JOEâ€™S", "JOE’S"},
		"the page's language":         {"text/html; charset=utf-8", "ru", "Часовщик", "Часовщик"},
	} {
		t.Run(name, func(t *testing.T) {
			at, of := &url.URL{Scheme: "https", Host: "hofuhr.example", Path: "/"}, site.New("hofuhr.example")
			body := `<html lang=` + c.lang + `><meta property="og:site_name" content="` + c.text +
				`"><meta name=description content="` + c.text + ` ` + c.text + `"><p>` + long
			in := extract.Input{Site: of, Page: page.Parse([]byte(body), c.contentType, at, of)}
			got, _ := extract.Name(in)
			if got.Value != c.want && c.want != "" {
				t.Errorf("name is %q, want %q", got.Value, c.want)
			}
			if strings.ContainsAny(got.Value, "\ufffdÐÑ") {
				t.Errorf("name is %q", got.Value)
			}
			if d, ok := extract.Description(in); ok && c.want == "Hofuhr" {
				t.Errorf("description is %q", d.Value)
			}
		})
	}
}

func TestDescription_CutWithinCharacter_LosesTheRest(t *testing.T) {
	at, of := &url.URL{Scheme: "https", Host: "hofuhr.example", Path: "/"}, site.New("hofuhr.example")
	const want = "Wir reparieren Uhren für Türme und für Bürger, f"
	body := `<meta name=description content="` + want + "\xc3" + `"><p>Schöne Grüße`
	got, _ := extract.Description(extract.Input{Site: of, Page: page.Parse([]byte(body), "text/html; charset=utf-8", at, of)})
	if got.Value != want {
		t.Errorf("description is %q, want %q", got.Value, want)
	}
}

func TestName_EncodingIsDoubtful_OnlyASCIIIsServed(t *testing.T) {
	at, of := &url.URL{Scheme: "https", Host: "hofuhr.example", Path: "/"}, site.New("hofuhr.example")
	for _, c := range []struct {
		text, want string
		confidence float64
	}{{"Часовщик", "Hofuhr", 0.55}, {"Часовщик", "Часовщик", 0.9}, {"Höfuhr", "Hofuhr", 0.6}, {"Höfuhr", "Höfuhr", 0.9},
		{"Hofuhr™ & Co", "Hofuhr & Co", 0.55}, {"¯ubr", "Hofuhr", 0.55}} {
		p := page.Parse([]byte(`<html lang=ru><meta property="og:site_name" content="`+c.text+`">`), "text/html", at, of)
		p.Detected = page.Encoding{Name: "koi8-r", Confidence: c.confidence}
		if got, _ := extract.Name(extract.Input{Site: of, Page: p}); got.Value != c.want {
			t.Errorf("%q, confidence %v: name is %q, want %q", c.text, c.confidence, got.Value, c.want)
		}
	}
}

// A word without any other text is often decoded wrongly; the domain's words are better than that.
func TestName_SingleWordInLegacyEncoding_IsRightOrTheDomains(t *testing.T) {
	at, of := &url.URL{Scheme: "https", Host: "hofuhr.example", Path: "/"}, site.New("hofuhr.example")
	texts := table.Must(string(testmust.Get(os.ReadFile("../page/testdata/legacy.txt"))(t)))
	right, wrong, domain := 0, 0, 0
	for group := range texts {
		for encoding := range strings.FieldsSeq(strings.ReplaceAll(group, "windows-1258", "")) { // which stores tones apart
			encoder := testmust.Get(htmlindex.Get(encoding))(t).NewEncoder()
			for _, row := range texts.Rows(group, 3) {
				for word := range strings.FieldsSeq(row[1]) {
					if word = strings.Trim(word, ".,;:!?\"'()"); len(word) < 4 || isASCII(word) {
						continue
					}
					utf8 := `<title>` + word + `</title><meta property="og:site_name" content="` + word + `">`
					body, err := encoder.String(utf8)
					if err != nil {
						continue
					}
					name := func(body, kind string) string {
						got, _ := extract.Name(extract.Input{Site: of, Page: page.Parse([]byte(body), kind, at, of)})
						return got.Value
					}
					got := name(body, "text/html")
					switch got {
					case name(utf8, "text/html; charset=utf-8"):
						right++
					case "Hofuhr":
						domain++
					default:
						wrong++
						t.Logf("%s: %q became %q", encoding, word, got)
					}
				}
			}
		}
	}
	if 50*wrong > right || right < domain {
		t.Errorf("%d right, %d wrong, %d times the domain's; want at most one of fifty wrong", right, wrong, domain)
	}
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}
