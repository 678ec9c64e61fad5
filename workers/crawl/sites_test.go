package crawl_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl"
)

// kept is an asset store of a test.
type kept struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (n *internet) assets() *kept { return &kept{files: map[string][]byte{}} }

func (k *kept) Put(_ context.Context, data []byte, ext string) (string, error) {
	sum := sha256.Sum256(data)
	id := hex.EncodeToString(sum[:])
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files[id+"."+ext] = data
	return id, nil
}

func TestCrawl_RecordedSites_MatchLabels(t *testing.T) {
	for _, c := range []struct{ recording, domain, start, name, logo string }{
		{"archive.org", "archive.org", "", "Internet Archive", "https://archive.org/#drawing-"},
		{"ard.de", "ard.de", "", "ARD", "http://www.ard.de/ARD-144.png"},
		{"daringfireball.net", "daringfireball.net", "", "Daring Fireball", "https://daringfireball.net/graphics/apple-touch-icon.png"},
		{"github.com", "github.com", "", "GitHub", "https://github.com/apple-touch-icon-144.png"},
		{"netflix.com", "netflix.com", "", "Netflix", "https://assets.nflxext.com/us/ffe/siteui/common/icons/nficon2016.png"},
		{"random.org", "random.org", "", "RANDOM.ORG", "https://www.random.org/graphics/touch/app-touch-full.png"},
		{"aws.amazon.com", "amazon.com", "https://aws.amazon.com/", "Amazon Web Services", "https://a0.awsstatic.com/main/images/site/touch-icon-ipad-144-precomposed.png"},
	} {
		t.Run(c.recording, func(t *testing.T) {
			n := newInternet(t)
			n.play(c.recording)
			target := crawl.Target{Domain: c.domain}
			if c.start != "" {
				var err error
				if target.Start, err = url.Parse(c.start); err != nil {
					t.Fatal(err)
				}
			}
			result := testmust.Get(n.crawlTarget(target, crawlTime))(t)
			show(t, result)
			if result.Record.Name == nil || *result.Record.Name != c.name {
				t.Errorf("name is %v, want %q", result.Record.Name, c.name)
			}
			if len(result.Record.Logos) == 0 || !strings.HasPrefix(sourceOf(result, "logos[0]"), c.logo) {
				t.Errorf("the first of %d logos is from %q, want %s", len(result.Record.Logos), sourceOf(result, "logos[0]"), c.logo)
			}
		})
	}
}

func sourceOf(r *crawl.Result, field string) string {
	for _, e := range r.Evidence {
		if e.Field == field {
			return e.Source
		}
	}
	return ""
}

func show(t *testing.T, r *crawl.Result) {
	t.Helper()
	t.Logf("from %s: %s, quality %.2f, complete %t", r.FinalURL, text(r.Record.Name), r.Record.QualityScore, r.Record.Complete)
	t.Logf("  %s", text(r.Record.Description))
	for _, l := range r.Record.Logos {
		t.Logf("  %s, theme %s, %d formats, %s", l.Type, text(l.Theme), len(l.Formats), size(l.Formats))
	}
	for _, c := range r.Record.Colors {
		t.Logf("  %s %s", c.Type, c.Hex)
	}
	for _, l := range r.Record.Links {
		t.Logf("  %s %s", l.Name, l.URL)
	}
	for _, e := range r.Evidence {
		t.Logf("  %-14s %-28s %.2f %s", e.Field, e.Method, e.Confidence, e.Source)
	}
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func size(formats []eventschemas.Asset) string {
	out := ""
	for _, f := range formats {
		out += f.Format + " "
		if f.Width != nil {
			out += fmt.Sprintf("%d×%d ", *f.Width, *f.Height)
		}
	}
	return out
}
