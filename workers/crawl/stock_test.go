package crawl_test

import (
	"bytes"
	"context"
	"fmt"
	"image/color"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/icons"
	"letterhead/projections/projectionstest"
	"letterhead/workers/crawl"
)

var purple = color.NRGBA{0x71, 0x2c, 0xf9, 0xff}

// Companies that bought one template have its icon until the fifth is crawled; then each loses it at its next crawl.
func TestWorker_StockIconOfATemplate_IsDroppedAtTheNextCrawl(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		n := newInternet(t)
		site := func(domain, body string, more files) {
			more["/"] = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"1"`)
				if r.Header.Get("If-None-Match") == `"1"` {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				html("<!doctype html><title>"+body)(w, r)
			}
			n.serve(domain, more)
		}
		template := func(domain, name string) {
			site(domain, name+`</title><meta name="description" content="`+name+` builds boats and bridges for the whole county."><h1>Welcome</h1>`,
				files{"/favicon.ico": icon(64, purple)})
		}
		for _, name := range []string{"Karvel", "Ostrin", "Belfort", "Mendip", "Tarnow"} {
			template(string(name[0]+32)+name[1:]+".com", name)
		}
		declared := `<link rel="icon" href="/favicon.ico">`
		site("declares.com", `Declares</title>`+declared, files{"/favicon.ico": icon(64, purple)})
		site("gorlitz.com", `Gorlitz</title><a href="https://karvel.com/">Our owner</a><a href="https://ostrin.com/">o</a><a href="https://belfort.com/">b</a>`,
			files{"/favicon.ico": icon(64, purple)})

		p := &stores{log: e.Log}
		var err error
		p.attempts, err = crawl.NewAttempts(t.Context(), e.Store, time.Now)
		testmust.Succeed(t, err)
		model := icons.New(e.Store)
		folding, _ := e.Start(engine.Config{}, model)
		o := p.start(t, crawl.WorkerConfig{IsStock: model.IsStock})
		crawler := testmust.Get(crawl.New(config(t), n.client(), n.assets()))(t)
		o.do = func(ctx context.Context, target crawl.Target) (*crawl.Result, error) {
			result, _, err := crawler.Crawl(ctx, target)
			return result, err
		}
		look := func(domain string) *brand.Brand {
			t.Helper()
			requested, m := o.request(domain, brand.PriorityBulk, time.Minute)
			o.publish(broker.CrawlRefresh, m)
			if end := o.outcome(domain, requested.ID); !end.Succeeded() {
				t.Fatalf("the crawl of %s ended with %s", domain, end.Outcome)
			}
			e.CatchUp(folding)
			return testmust.Get(o.brands.State(t.Context(), domain))(t)
		}
		for _, domain := range []string{"karvel.com", "ostrin.com", "belfort.com", "mendip.com"} {
			if b := look(domain); !b.Held().HasLogo() {
				t.Errorf("%s lost the icon of four sites", domain)
			}
		}
		claim := commands.ClaimBrand{Request: commands.Request{ID: "claim", Actor: "operator:o"}, Domain: "mendip.com"}
		testmust.Succeed(t, o.brands.ClaimBrand(t.Context(), claim))
		// Declared; linked to the others; the fifth.
		for domain, want := range map[string]bool{"declares.com": true, "gorlitz.com": true, "tarnow.com": false} {
			b := look(domain)
			if b.Held().HasLogo() != want {
				t.Errorf("%s has a logo: %t, want %t", domain, !want, want)
			}
			purple := slices.ContainsFunc(b.Held().Colors, func(c eventschemas.Color) bool { return c.Hex == "#712cf9" })
			if purple != want {
				t.Errorf("%s has the color of the icon: %t, want %t", domain, purple, want)
			}
		}
		for domain, want := range map[string]bool{"karvel.com": false, "mendip.com": true} {
			if b := look(domain); b.Held().HasLogo() != want {
				t.Errorf("at its next crawl, %s has a logo: %t, want %t", domain, !want, want)
			}
		}
		// It stays dropped, and a rebuild of the read model makes no difference.
		testmust.Succeed(t, folding.Rebuild(e.Context(), []string{icons.Name}, nil))
		for _, domain := range []string{"karvel.com", "tarnow.com"} {
			if look(domain).Held().HasLogo() {
				t.Errorf("%s has the icon again", domain)
			}
		}
	})
}

// During an upgrade the read model may be missing for days, which is no fault of each crawl.
func TestWorker_IconsNotReady_KeepsIconsWithoutWarnings(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		var logged bytes.Buffer
		o := newTestWorker(t, crawl.WorkerConfig{IsStock: icons.New(e.Store).IsStock, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		stock := make(chan bool, 1)
		o.do = func(ctx context.Context, target crawl.Target) (*crawl.Result, error) {
			stock <- target.IsStock(ctx, "ab", brand.Sighting{Domain: target.Domain})
			return named("Acme"), nil
		}
		c, m := o.request("acme.com", brand.PriorityBulk, time.Minute)
		o.publish(broker.CrawlRefresh, m)
		o.outcome("acme.com", c.ID)
		o.stop()
		testmust.Succeed(t, <-o.ended)
		if <-stock || strings.Contains(logged.String(), "level=WARN") {
			t.Errorf("the icon is a template's, or a warning was logged: %s", logged.String())
		}
	})
}

func TestCrawl_IconsByConvention_AreRecorded(t *testing.T) {
	const page = `<!doctype html><title>Acme</title><meta name="description" content="Acme makes careful instruments.">%s
		<a href="https://www.globex.co.uk/x">Globex</a><a href="/about">About</a><a href="https://acme.com/">Home</a>
		<a href="https://www.bücher.de/">Books</a><a href="http://localhost:3000/">Left over</a><a href="http://192.0.2.1/">Left over</a>`
	for name, c := range map[string]struct {
		head string
		more files
		want int
	}{
		"undeclared":             {"", files{"/favicon.ico": icon(64, blue)}, 1},
		"a theme's":              {`<link rel="icon" href="/wp-content/themes/ten/icon.png">`, files{"/wp-content/themes/ten/icon.png": icon(64, blue)}, 1},
		"declared":               {`<link rel="icon" href="/favicon.ico">`, files{"/favicon.ico": icon(64, blue)}, 0},
		"declared elsewhere too": {`<link rel="icon" href="/own.png">`, files{"/favicon.ico": icon(64, blue), "/own.png": icon(64, blue)}, 0},
		"in the header":          {`<header><a href="/"><img class="logo" src="/favicon.ico" alt="Acme"></a></header>`, files{"/favicon.ico": icon(64, blue)}, 0},
		"none":                   {"", files{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			c.more["/"] = html(fmt.Sprintf(page, c.head))
			n.serve("acme.com", c.more)
			asked := 0
			r := testmust.Get(n.crawlTarget(crawl.Target{Domain: "acme.com", IsStock: func(_ context.Context, _ string, seen brand.Sighting) bool {
				asked++
				return seen.Name != "Acme" || seen.At != "acme.com" || !slices.Equal(seen.Linked, []string{"globex.co.uk", "xn--bcher-kva.de"})
			}}, crawlTime))(t)
			recorded := 0
			if r.ByConvention != nil {
				recorded = len(r.ByConvention.Assets)
			}
			if asked != c.want || recorded != c.want || (len(r.Record.Logos) == 0) != (len(c.more) == 1) {
				t.Errorf("%d icons recorded and %d asked about, want %d; %d logos", recorded, asked, c.want, len(r.Record.Logos))
			}
		})
	}
}
