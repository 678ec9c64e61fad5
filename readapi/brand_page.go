package readapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/mux"

	"letterhead/domain/brand"
	"letterhead/internal/imaging"
	"letterhead/internal/web"
	"letterhead/projections/brands"
	"letterhead/readapi/lookup"
)

// wall are the brands on the first page, each on its own color.
type wall struct {
	tiles []galleryImage
	paint template.CSS
	until time.Time // when it is read from the index again
}

// wallAge is how long the first page shows the colors that it has read, and wallRetry how long it does without those
// that it could not read.
const wallAge, wallRetry = 5 * time.Minute, 10 * time.Second

// paintedWall returns the wall as the index has its brands.
func (x *exchange) paintedWall() *wall {
	l, now := x.api.pages.landing, x.api.Now()
	l.painting.Lock() // for at most the time of one read
	defer l.painting.Unlock()
	if l.wall != nil && now.Before(l.wall.until) {
		return l.wall
	}
	// The wall is for everybody, so it does not end with this visitor's request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.request.Context()), x.api.quick)
	defer cancel()
	w := &wall{until: now.Add(wallAge)}
	for i, domain := range wallBrands {
		looks, err := x.looksOf(ctx, domain)
		if err != nil || !x.api.Filled() {
			w.until = now.Add(wallRetry)
		}
		color := mainColor(looks)
		w.paint += paint(fmt.Sprintf(".tile:nth-child(%d)", i+1), color)
		w.tiles = append(w.tiles, l.gallery.image(domain, domain, "size", gallerySize, "background", plate))
	}
	l.wall = w
	return w
}

// plate is the ground of a logo that is shown on its brand's color, which is often the color of its ink.
const plate = "ffffff"

// looksOf returns how the index has a brand; it crawls nothing. An unknown or restricted brand has no looks.
func (x *exchange) looksOf(ctx context.Context, domain string) (brands.Looks, error) {
	answer, err := x.api.lookup.Logo(ctx, ctx, lookup.LogoQuery{Request: x.command(), Domain: domain})
	if err != nil || answer.Looks.Restricted {
		return brands.Looks{}, err
	}
	return answer.Looks, nil
}

// mainColor returns the main color of a brand, or white if it has none.
func mainColor(looks brands.Looks) imaging.RGB {
	for _, kind := range []string{"accent", "brand"} {
		for _, c := range looks.Colors {
			if color, _, ok := imaging.ParseColor(c.Hex); ok && c.Type == kind {
				return color
			}
		}
	}
	return imaging.White
}

// brandView is the data of the page of a brand.
type brandView struct {
	view
	Domain, Brand string // Brand is the name, or the domain if it is unknown
	Known         bool
	OnPlate       galleryImage
	URL           string // of a logo
	Logos         []galleryBrand
}

// serveBrandPage answers GET and HEAD /brands/{domain} for everybody: what of a brand is free, in its colors. The page
// leads to the dashboard for the rest.
func (x *exchange) serveBrandPage() error {
	x.closeToOtherSites()
	text, err := url.PathUnescape(mux.Vars(x.request)["domain"])
	domain := ""
	if err == nil {
		domain, err = brand.ParseDomain(text)
	}
	var invalid *brand.InvalidDomainError
	switch {
	case errors.As(err, &invalid):
		return x.sendLanding("../", text, landingResults{Sentence: invalid.Sentence}, web.Invalid("%s", invalid.Sentence))
	case err != nil:
		return web.Invalid("The domain is not percent-encoded correctly.")
	case domain != text:
		x.redirect(url.PathEscape(domain))
		return nil
	}
	problem := x.admitVisitor()
	var looks brands.Looks
	if problem == nil {
		ctx, cancel := context.WithTimeout(x.request.Context(), x.api.quick)
		defer cancel()
		if looks, err = x.looksOf(ctx, domain); err != nil {
			problem = unavailable("The index is unavailable. Try again in a moment.", retryUnavailable, err)
		}
	}
	if problem != nil {
		return x.sendLanding("../", domain, landingResults{Sentence: problem.Text}, problem)
	}
	return x.sendBrandPage(domain, looks)
}

func (x *exchange) sendBrandPage(domain string, looks brands.Looks) error {
	l := x.api.pages.landing
	g := l.gallery
	color := mainColor(looks)
	v := brandView{
		view:   view{frame: g.frame, Title: domain + " · " + g.Name, Paint: paint(".brand", color)},
		Domain: domain, Brand: cmp.Or(looks.Name, domain), Known: len(looks.Logos) > 0 || looks.Name != "",
		URL:     g.image(domain, "", "size", "64").URL,
		OnPlate: g.image(domain, "", "size", "128", "background", plate),
	}
	if v.Known && len(looks.Colors) > 0 {
		v.Paint += web.Marks(color)
	}
	for _, kind := range []string{"icon", "logo"} {
		v.Logos = append(v.Logos, galleryBrand{Domain: kind,
			OnLight: g.image(domain+"/"+kind, kind, "size", "128", "background", "auto-light"),
			OnDark:  g.image(domain+"/"+kind, kind, "size", "128", "background", "auto-dark")})
	}
	body, err := render(l.brand, v)
	if err != nil {
		return err
	}
	x.Header()["Content-Security-Policy"] = g.policy(l.may, v.Paint)
	if v.Known {
		return x.sendCached(web.HTML, newPage(body), pageCache)
	}
	x.Header()["Cache-Control"] = cacheNever // a look-up may find it
	x.send(http.StatusNotFound, web.HTML, body)
	return nil
}
