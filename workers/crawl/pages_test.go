package crawl_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"letterhead/internal/race"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl"
)

// expectedPage is the result of another extractor for a saved page. Agreement shows parity, not truth.
type expectedPage struct {
	Page, URL, Publisher, Description, Image string
}

func TestSavedPages_AgreeWithOtherExtractor(t *testing.T) {
	if race.Enabled {
		t.Skip("reading a saved page is the work of one goroutine")
	}
	data := testData(t)
	list := testmust.Get(fs.ReadFile(data, "pages/expected.json"))(t)
	var expected []expectedPage
	testmust.Succeed(t, json.Unmarshal(list, &expected))
	var name, description, image agreement
	for _, e := range expected {
		result, err := crawl.Read(t.Context(), config(t), crawl.SavedPage{URL: e.URL, Body: unzip(t, data, "pages/"+e.Page+".html.gz")})
		var failure *crawl.Failure
		if errors.As(err, &failure) {
			t.Logf("%-24s %v", e.Page, failure)
			result = &crawl.Result{}
		} else if err != nil {
			t.Fatalf("%s: %v", e.Page, err)
		} else {
			keeps(t, "acme.com", result)
		}
		r := result.Record
		name.count(t, e.Page, "name", text(r.Name), e.Publisher, sameName)
		description.count(t, e.Page, "description", text(r.Description), e.Description, sameText)
		// The other extractor takes any image of the page; ours takes only the page's own share image.
		if r.OGImage != nil {
			image.count(t, e.Page, "image", *r.OGImage, e.Image, sameAddress)
		}
	}
	t.Logf("agreement on %d pages: name %s, description %s, image %s", len(expected), name, description, image)
	name.atLeast(t, "name", 0.75)
	description.atLeast(t, "description", 0.90)
	image.atLeast(t, "image", 0.90)
	if image.both < len(expected)/2 {
		t.Errorf("a share image on %d of %d pages only", image.both, len(expected))
	}
}

// agreement counts the pages for which both extractors have a value, and those for which the values are the same.
type agreement struct{ same, both int }

func (a agreement) String() string {
	return fmt.Sprintf("%d of %d (%.0f %%)", a.same, a.both, 100*a.share())
}

func (a agreement) share() float64 { return float64(a.same) / float64(max(a.both, 1)) }

func (a agreement) atLeast(t *testing.T, field string, floor float64) {
	t.Helper()
	if a.share() < floor {
		t.Errorf("%s agrees on %s, want at least %.0f %%", field, a, 100*floor)
	}
}

func (a *agreement) count(t *testing.T, page, field, ours, theirs string, same func(a, b string) bool) {
	if theirs == "" {
		return
	}
	a.both++
	if same(ours, theirs) {
		a.same++
		return
	}
	t.Logf("%-24s %-12s ours %.90q, theirs %.90q", page, field, ours, theirs)
}

func sameName(a, b string) bool { return letters(a) == letters(b) }

// letters returns a text's letters and digits in one case, because the case of a brand is a matter of taste.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// sameText compares the beginnings: the other extractor truncates descriptions elsewhere.
func sameText(a, b string) bool {
	x, y := []rune(letters(a)), []rune(letters(b))
	n := min(len(x), len(y), 80)
	return n > 10 && string(x[:n]) == string(y[:n])
}

func sameAddress(a, b string) bool {
	u, err1 := url.Parse(a)
	v, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && u.Host == v.Host && u.Path == v.Path
}
