package page_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/unicode/norm"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/table"
)

// testdata/legacy.txt has at least minTexts short texts for each encoding: a language, a title and a description.
const minTexts = 20

func TestParse_EncodingIsNotDeclared_IsDetected(t *testing.T) {
	texts := testmust.Get(os.ReadFile("testdata/legacy.txt"))(t)
	var encodings []string
	for line := range strings.SplitSeq(string(texts), "\n") {
		if strings.HasPrefix(line, "[") {
			encodings = append(encodings, strings.Trim(line, "[]"))
		}
	}
	for _, group := range encodings {
		rows := table.Must(string(texts)).Rows(group, 3)
		for name := range strings.FieldsSeq(group) {
			t.Run(name, func(t *testing.T) {
				if len(rows) < minTexts {
					t.Errorf("%d texts, want %d", len(rows), minTexts)
				}
				missed := 0
				for _, row := range rows {
					if problem := undetected(t, name, "", row[1], row[2]); problem != "" {
						missed++
						t.Log(problem)
					}
					if problem := undetected(t, name, row[0], row[1], row[2]); problem != "" {
						t.Errorf("with a language: %s", problem)
					}
				}
				if missed*minTexts > len(rows) {
					t.Errorf("%d of %d texts are decoded wrongly", missed, len(rows))
				}
			})
		}
	}
}

// undetected parses a page in an encoding that it does not declare, and returns what is wrong with the result, or "".
func undetected(t *testing.T, name, language, title, description string) string {
	t.Helper()
	html := "<html lang='" + language + "'><head><title>" + title + `</title><meta name=description content="` +
		description + `"></head><body><h1>` + title + "</h1><p>" + description + "</p><a href=/contact>Contact</a>"
	if name == "windows-1258" { // which writes most tones as a mark of their own
		html = vietnamese(html)
	}
	encoder := encoding.HTMLEscapeUnsupported(testmust.Get(htmlindex.Get(name))(t).NewEncoder())
	p := parse(t, testmust.Get(encoder.String(html))(t), "text/html")
	if p.Title == title && p.Meta("description") == description && p.Detected.Confidence >= 0.5 && p.Detected.Confidence <= 1 {
		return ""
	}
	return fmt.Sprintf("the title is %q and the description %q, want %q and %q (detected %+v)",
		p.Title, p.Meta("description"), title, description, p.Detected)
}

// vietnamese separates the tones from vowels, as far as windows-1258 requires it.
func vietnamese(text string) string {
	var b strings.Builder
	for _, r := range text {
		if _, err := testEncoder.String(string(r)); err != nil {
			d := []rune(norm.NFD.String(string(r)))
			tone := len(d) - 1
			for i, m := range d[1:] {
				if strings.ContainsRune("\u0300\u0301\u0303\u0309\u0323", m) {
					tone = i + 1
				}
			}
			mark := string(d[tone])
			b.WriteString(norm.NFC.String(string(append(d[:tone:tone], d[tone+1:]...))) + mark)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

var testEncoder = func() interface{ String(string) (string, error) } {
	e, err := htmlindex.Get("windows-1258")
	if err != nil {
		panic(err)
	}
	return e.NewEncoder()
}()
