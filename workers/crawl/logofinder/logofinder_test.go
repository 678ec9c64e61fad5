package logofinder_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/url"
	"strings"
	"sync"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/resvg"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl/logofinder"
)

var (
	blue  = color.NRGBA{0x0b, 0x5f, 0xff, 0xff}
	red   = color.NRGBA{0xe5, 0x09, 0x14, 0xff}
	white = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// withInk returns an image whose ink is decided by a function, in coordinates from 0 to 1.
func withInk(w, h int, background color.NRGBA, ink color.NRGBA, inside func(x, y float64) bool) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := background
			if inside((float64(x)+0.5)/float64(w), (float64(y)+0.5)/float64(h)) {
				c = ink
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

func disc(x, y float64) bool  { return (x-0.5)*(x-0.5)+(y-0.5)*(y-0.5) < 0.16 }
func cross(x, y float64) bool { return x > 0.4 && x < 0.6 || y > 0.4 && y < 0.6 }
func word(x, y float64) bool  { return y > 0.2 && y < 0.8 && int(x*12)%2 == 0 }

func encode(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	testmust.Succeed(t, png.Encode(&b, img))
	return b.Bytes()
}

var drawn = sync.OnceValues(func() (*resvg.Renderer, error) {
	return resvg.New(context.Background(), resvg.Config{CacheDir: resvgtest.Folder()})
})

// renderer returns a renderer shared by all tests.
func renderer(t testing.TB) *resvg.Renderer {
	t.Helper()
	r := testmust.Get(drawn())(t)
	return r
}

func candidate(kind logofinder.Kind, score float64) logofinder.Candidate {
	u, _ := url.Parse(fmt.Sprintf("https://acme.com/%v-%v.png", kind, score))
	return logofinder.Candidate{URL: u, Method: "test", Kind: kind, Score: score}
}

func TestRead_Logo_TypeThemeAndTransparency(t *testing.T) {
	none := color.NRGBA{}
	for name, c := range map[string]struct {
		kind logofinder.Kind
		img  image.Image
		want string // type, theme, clear
	}{
		"icon":                    {logofinder.Icon, withInk(64, 64, none, blue, disc), "icon dark true"},
		"icon on white":           {logofinder.Icon, withInk(64, 64, white, blue, disc), "icon  false"},
		"light icon":              {logofinder.Icon, withInk(64, 64, none, white, disc), "icon light true"},
		"icon that is not square": {logofinder.Icon, withInk(128, 64, none, blue, disc), "other dark true"},
		"wordmark":                {logofinder.Mark, withInk(300, 60, none, blue, word), "logo dark true"},
		"white wordmark":          {logofinder.Mark, withInk(300, 60, none, white, word), "logo light true"},
		"symbol":                  {logofinder.Mark, withInk(90, 80, none, blue, disc), "symbol dark true"},
		"square on a background":  {logofinder.Mark, withInk(200, 200, blue, white, disc), "icon  false"},
	} {
		t.Run(name, func(t *testing.T) {
			p := testmust.Get(logofinder.Read(t.Context(), renderer(t), candidate(c.kind, 80), encode(t, c.img)))(t)
			if got := fmt.Sprint(p.Type(), " ", p.Theme, " ", p.Clear); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	svg := func(body string) []byte {
		return []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 240 60">` + body + `</svg>`)
	}
	p, err := logofinder.Read(t.Context(), renderer(t), candidate(logofinder.Mark, 80), svg(`<script>alert(1)</script><path d="M0 0h200v60L100 9z" fill="#0b5fff" onclick="x()"/>`))
	testmust.Succeed(t, err)
	if p.SVG == nil || bytes.Contains(p.SVG, []byte("script")) || bytes.Contains(p.SVG, []byte("onclick")) || p.Type() != "logo" || p.Width != 240 {
		t.Errorf("vector: %s, type %s, width %d", p.SVG, p.Type(), p.Width)
	}
	if p, err = logofinder.Read(t.Context(), renderer(t), candidate(logofinder.Stencil, 20), svg(`<circle r="20" cx="30" cy="30"/>`)); err != nil || p.Type() != "symbol" {
		t.Errorf("stencil: %v", err)
	}
}

func TestRead_LongMasthead_IsAllowed(t *testing.T) {
	line := withInk(900, 50, color.NRGBA{}, blue, func(x, y float64) bool { return int(x*40)%2 == 0 })
	for method, want := range map[string]error{"home link picture": nil, "json-ld logo": nil, "header picture": logofinder.ErrNotLogo} {
		c := candidate(logofinder.Mark, 80)
		c.Method = method
		if _, err := logofinder.Read(t.Context(), renderer(t), c, encode(t, line)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
}

func TestRead_ArtOnGround_HasNoInk(t *testing.T) {
	white, black := color.NRGBA{R: 255, G: 255, B: 255, A: 255}, color.NRGBA{A: 255}
	onDisc := withInk(256, 256, color.NRGBA{}, white, disc)
	for y := range 256 {
		for x := range 256 {
			if x > 104 && x < 152 && y > 64 && y < 192 {
				onDisc.SetNRGBA(x, y, black)
			}
		}
	}
	if p := mustRead(t, candidate(logofinder.Mark, 80), onDisc); p.Theme != "" {
		t.Errorf("dark art on a white disc is %q", p.Theme)
	}
	if p := mustRead(t, candidate(logofinder.Mark, 80), withInk(256, 256, color.NRGBA{}, white, disc)); p.Theme != "light" {
		t.Errorf("a white disc is %q", p.Theme)
	}
}

func TestSelect_FileAtKnownPath_DoesNotContradictDeclaredIcons(t *testing.T) {
	declared := mustRead(t, candidate(logofinder.Icon, 20), withInk(128, 128, color.NRGBA{}, blue, cross))
	probed := candidate(logofinder.Icon, 30)
	probed.Probed = true
	other := mustRead(t, probed, withInk(180, 180, color.NRGBA{}, blue, disc))
	if got := logofinder.Select([]*logofinder.Image{declared, other}); len(got.Chosen) != 1 || got.Chosen[0] != declared {
		t.Errorf("chosen: %d", len(got.Chosen))
	}
	if got := logofinder.Select([]*logofinder.Image{other}); len(got.Chosen) != 1 {
		t.Error("a lone file at a known path is not chosen")
	}
}

func TestRead_NotLogo_Fails(t *testing.T) {
	var photograph bytes.Buffer
	jpeg.Encode(&photograph, gradient(256, 256), nil)
	for name, c := range map[string]struct {
		kind logofinder.Kind
		data []byte
		want error
	}{
		"web page":               {logofinder.Icon, []byte("<!doctype html><title>Not found</title>"), imaging.ErrUnknown},
		"nothing":                {logofinder.Icon, nil, imaging.ErrUnknown},
		"cut off":                {logofinder.Icon, encode(t, withInk(64, 64, white, blue, disc))[:200], imaging.ErrMalformed},
		"tracker":                {logofinder.Icon, encode(t, withInk(1, 1, white, blue, disc)), logofinder.ErrNotLogo},
		"all clear":              {logofinder.Icon, encode(t, withInk(64, 64, color.NRGBA{}, blue, func(float64, float64) bool { return false })), logofinder.ErrNotLogo},
		"one color":              {logofinder.Icon, encode(t, withInk(64, 64, white, white, disc)), logofinder.ErrNotLogo},
		"tiny header picture":    {logofinder.Mark, encode(t, withInk(16, 16, color.NRGBA{}, blue, disc)), logofinder.ErrNotLogo},
		"stripe":                 {logofinder.Mark, encode(t, withInk(900, 30, color.NRGBA{}, blue, cross)), logofinder.ErrNotLogo},
		"photograph":             {logofinder.Mark, photograph.Bytes(), logofinder.ErrNotLogo},
		"30000×30000 pixels":     {logofinder.Icon, pngBomb(t), imaging.ErrTooLarge},
		"ICO of a huge picture":  {logofinder.Icon, icoBomb(), imaging.ErrMalformed},
		"SVG of nothing":         {logofinder.Icon, []byte(`<svg xmlns="http://www.w3.org/2000/svg"></svg>`), imaging.ErrMalformed},
		"billion laughs":         {logofinder.Icon, []byte(`<!DOCTYPE svg [<!ENTITY a "<g/>"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><svg xmlns="http://www.w3.org/2000/svg">&b;&b;</svg>`), nil},
		"animated GIF of bounds": {logofinder.Icon, []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"), imaging.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := logofinder.Read(t.Context(), renderer(t), candidate(c.kind, 80), c.data)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if !logofinder.IsFileFault(err) {
				t.Errorf("%v is not reported as a fault of the file", err)
			}
		})
	}
	if logofinder.IsFileFault(errors.New("disk is full")) {
		t.Error("a fault of the store is reported as one of the file")
	}
}

func TestRead_CertainByItsPlace_OutranksThePixels(t *testing.T) {
	const place = `<header><a class="logo" href="/"><img src="/logo.png" alt="Acme"></a></header>`
	data := encode(t, gradient(256, 256))
	for body, want := range map[string]bool{
		place: true,
		`<header><a href="/"><img src="/team.png" alt="Acme"></a></header>`:                                                false,
		`<main><p>` + strings.Repeat("word ", 100) + `</p><div class="logo"><img src="/logo.png" alt="Acme"></div></main>`: false,
	} {
		c := logofinder.Candidates(read(body))[0]
		if _, err := logofinder.Read(t.Context(), renderer(t), c, data); (err == nil) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
	c := logofinder.Candidates(read(place))[0]
	if _, err := logofinder.Read(t.Context(), renderer(t), c, encode(t, withInk(64, 64, white, white, disc))); err == nil {
		t.Error("a blank picture is a logo")
	}
}

func TestRead_DeclaredShareBanner_IsNotALogo(t *testing.T) {
	declared := candidate(logofinder.Mark, 46)
	declared.Method = "json-ld logo"
	shown := candidate(logofinder.Mark, 70)
	for name, c := range map[string]struct {
		candidate logofinder.Candidate
		data      []byte
		want      bool
	}{
		"a card of the usual size":    {declared, encode(t, withInk(1200, 630, blue, white, cross)), false},
		"a card of half the size":     {declared, encode(t, withInk(600, 315, blue, white, cross)), false},
		"a picture across":            {declared, encode(t, gradient(1600, 900)), false},
		"a wide clear logo":           {declared, encode(t, withInk(1200, 630, color.NRGBA{}, blue, cross)), true},
		"a small logo of those sides": {declared, encode(t, withInk(120, 63, white, blue, cross)), true},
		"a wordmark on white":         {declared, encode(t, withInk(1200, 300, white, blue, cross)), true},
		"a square":                    {declared, encode(t, withInk(1024, 1024, white, blue, disc)), true},
		"shown on the page":           {shown, encode(t, withInk(1200, 630, white, blue, cross)), true},
	} {
		if _, err := logofinder.Read(t.Context(), renderer(t), c.candidate, c.data); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// gradient returns a picture with the many colors of a photograph.
func gradient(width, height int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.SetNRGBA(x, y, color.NRGBA{uint8(256 * x / width), uint8(256 * y / height), uint8(x * y / 200), 255})
		}
	}
	return img
}

// pngBomb returns a small PNG of 30000×30000 pixels.
func pngBomb(t *testing.T) []byte {
	data := encode(t, withInk(8, 8, white, blue, disc))
	binary.BigEndian.PutUint32(data[16:], 30000)
	binary.BigEndian.PutUint32(data[20:], 30000)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	return data
}

// icoBomb returns an ICO whose only entry is a bitmap of 40000×40000 pixels without the pixels.
func icoBomb() []byte {
	b := make([]byte, 62)
	binary.LittleEndian.PutUint16(b[2:], 1)
	binary.LittleEndian.PutUint16(b[4:], 1)
	binary.LittleEndian.PutUint32(b[14:], 40)
	binary.LittleEndian.PutUint32(b[18:], 22)
	binary.LittleEndian.PutUint32(b[22:], 40)
	binary.LittleEndian.PutUint32(b[26:], 40000)
	binary.LittleEndian.PutUint32(b[30:], 80000)
	binary.LittleEndian.PutUint16(b[34:], 1)
	binary.LittleEndian.PutUint16(b[36:], 32)
	return b
}

func mustRead(t *testing.T, c logofinder.Candidate, img image.Image) *logofinder.Image {
	t.Helper()
	p := testmust.Get(logofinder.Read(t.Context(), renderer(t), c, encode(t, img)))(t)
	return p
}

func TestSelect_SameImage_IsChosenOnce(t *testing.T) {
	none := color.NRGBA{}
	small := mustRead(t, candidate(logofinder.Icon, 30), withInk(48, 48, none, blue, disc))
	large := mustRead(t, candidate(logofinder.Icon, 31), withInk(180, 180, none, blue, disc))
	other := mustRead(t, candidate(logofinder.Icon, 20), withInk(96, 96, none, blue, cross))
	onWhite := mustRead(t, candidate(logofinder.Icon, 19), withInk(96, 96, white, blue, disc))
	inWhite := mustRead(t, candidate(logofinder.Icon, 18), withInk(96, 96, none, white, disc))
	got := logofinder.Select([]*logofinder.Image{small, other, large}).Chosen
	if len(got) != 2 || got[0] != large || got[1] != other {
		t.Errorf("kept %d, want the large disc and the cross", len(got))
	}
	if got := logofinder.Select([]*logofinder.Image{large, onWhite, inWhite}).Chosen; len(got) != 3 {
		t.Errorf("kept %d of one image in three treatments, want all", len(got))
	}
	again := mustRead(t, candidate(logofinder.Mark, 60), withInk(180, 180, none, blue, disc))
	if got := logofinder.Select([]*logofinder.Image{large, again}).Chosen; len(got) != 1 || got[0] != again {
		t.Errorf("kept %d, want one file once, as the mark", len(got))
	}
	tiny := mustRead(t, candidate(logofinder.Icon, 40), withInk(16, 16, none, red, cross))
	if got := logofinder.Select([]*logofinder.Image{tiny, other}).Chosen; len(got) != 1 || got[0] != other {
		t.Errorf("kept %d, want the tiny icon dropped for a better one", len(got))
	}
	if got := logofinder.Select([]*logofinder.Image{mustRead(t, candidate(logofinder.Icon, 60), withInk(48, 48, none, blue, disc)), large}).Chosen; len(got) != 1 || got[0] != large {
		t.Errorf("kept %d, want the larger of two sizes although the small one scores higher", len(got))
	}
	if got := logofinder.Select([]*logofinder.Image{tiny}).Chosen; len(got) != 1 {
		t.Error("dropped the only icon, a tiny one")
	}
	if got := logofinder.Select(nil).Chosen; len(got) != 0 {
		t.Errorf("kept %d of no candidates", len(got))
	}
	var many []*logofinder.Image
	for i := range 40 {
		kind := logofinder.Kind(i % 3)
		many = append(many, mustRead(t, candidate(kind, float64(50+i)), withInk(96+i, 96, none, color.NRGBA{uint8(i * 6), 80, 120, 255}, func(x, y float64) bool { return int(x*float64(i+2))%2 == 0 && y < 0.5+float64(i)/90 && x+y > 0.3 })))
	}
	if got := logofinder.Select(many).Chosen; len(got) > logofinder.MaxLogos {
		t.Errorf("kept %d", len(got))
	}
}

// shelf is an asset store in memory.
type shelf map[string][]byte

func (s shelf) Put(_ context.Context, data []byte, ext string) (string, error) {
	id := fmt.Sprintf("%x", crc32.ChecksumIEEE(data))
	s[id+"."+ext] = data
	return id, nil
}

type full struct{}

func (full) Put(context.Context, []byte, string) (string, error) {
	return "", errors.New("disk is full")
}

func TestStore_EveryFormat_IsKept(t *testing.T) {
	assets := shelf{}
	p := mustRead(t, candidate(logofinder.Mark, 80), withInk(3000, 600, color.NRGBA{}, blue, word))
	logo := testmust.Get(p.Store(t.Context(), assets))(t)
	if got := formats(logo); got != "png 1024×205, webp 1024×205, png 256×51, webp 256×51" || logo.Tags == nil {
		t.Fatalf("formats are %s", got)
	}
	for _, f := range logo.Formats {
		data := assets[f.ID+"."+f.Format]
		info, err := imaging.Probe(data)
		if err != nil || string(info.Format) != f.Format || info.Width != *f.Width || *f.Height != info.Height || f.Size != int64(len(data)) || f.Background == nil {
			t.Errorf("%s: %+v, stored %+v, %v", f.Format, f, info, err)
		}
	}
	small, err := mustRead(t, candidate(logofinder.Icon, 80), withInk(40, 40, white, blue, disc)).Store(t.Context(), assets)
	if err != nil || *small.Formats[0].Width != 40 || small.Formats[0].Background != nil || small.Theme != nil {
		t.Errorf("a small icon on white: %+v, %v", small, err)
	}
	if _, err := p.Store(t.Context(), full{}); err == nil || logofinder.IsFileFault(err) {
		t.Errorf("a full disk: %v", err)
	}
}

// formats lists the forms of a logo in their order.
func formats(logo eventschemas.Logo) string {
	var out []string
	for _, f := range logo.Formats {
		out = append(out, fmt.Sprintf("%s %d×%d", f.Format, *f.Width, *f.Height))
	}
	return strings.Join(out, ", ")
}

func TestStore_Vector_HasRasterSizes(t *testing.T) {
	assets := shelf{}
	p := testmust.Get(logofinder.Read(t.Context(), renderer(t), candidate(logofinder.Mark, 80), []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 50"><circle cx="25" cy="25" r="20" fill="#fff"/><path d="M60 5h130L125 45z" fill="#fff"/></svg>`)))(t)
	logo := testmust.Get(p.Store(t.Context(), assets))(t)
	if got := formats(logo); got != "svg 200×50, png 512×128, webp 512×128, png 256×64, webp 256×64" {
		t.Errorf("formats are %s", got)
	}
	if logo.Type != "logo" || logo.Theme == nil || *logo.Theme != "light" {
		t.Errorf("%s, theme %v: want a light logo", logo.Type, logo.Theme)
	}
	img, _, err := imaging.Decode(assets[logo.Formats[1].ID+".png"], imaging.Limits{})
	if err != nil || img.NRGBAAt(64, 64) != white || img.NRGBAAt(2, 2).A != 0 {
		t.Errorf("the larger PNG does not show the image: %v, %v", img.NRGBAAt(64, 64), err)
	}
}

// frail fails for drawings above a size.
type frail struct {
	logofinder.Renderer
	most int
}

func (f frail) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	if side > f.most {
		return nil, fmt.Errorf("%d pixels: %w", side, imaging.ErrTooLarge)
	}
	return f.Renderer.Render(ctx, svg, side)
}

func TestStore_VectorTooCostlyInOneSize_KeepsOthers(t *testing.T) {
	svg := []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 50"><circle cx="25" cy="25" r="20"/><path d="M60 5h130L125 45z"/></svg>`)
	p := testmust.Get(logofinder.Read(t.Context(), frail{renderer(t), 256}, candidate(logofinder.Mark, 80), svg))(t)
	logo := testmust.Get(p.Store(t.Context(), shelf{}))(t)
	if got := formats(logo); got != "svg 200×50, png 256×64, webp 256×64" {
		t.Errorf("formats are %s", got)
	}
	// A vector that could not be drawn for analysis is not kept.
	if _, err := logofinder.Read(t.Context(), frail{renderer(t), 255}, candidate(logofinder.Mark, 80), svg); !errors.Is(err, imaging.ErrTooLarge) {
		t.Errorf("error of the skipped size: %v, want %v", err, imaging.ErrTooLarge)
	}
}

// storeBanner and storePicture store a file that was not decoded before.
func storeBanner(t *testing.T, to logofinder.Assets, data []byte) (eventschemas.Image, error) {
	t.Helper()
	f, err := logofinder.Open(t.Context(), renderer(t), data, nil, false)
	if err != nil {
		return eventschemas.Image{}, err
	}
	return f.StoreBanner(t.Context(), to)
}

func storeImage(t *testing.T, to logofinder.Assets, data []byte) (eventschemas.Image, error) {
	t.Helper()
	f, err := logofinder.Open(t.Context(), renderer(t), data, nil, false)
	if err != nil {
		return eventschemas.Image{}, err
	}
	return f.StoreImage(t.Context(), to)
}

func TestStoreBanner_Photo_IsJPEG(t *testing.T) {
	assets := shelf{}
	banner := testmust.Get(storeBanner(t, assets, encode(t, withInk(2400, 1200, color.NRGBA{}, blue, disc))))(t)
	f := banner.Formats[0]
	info, err := imaging.Probe(assets[f.ID+".jpeg"])
	if err != nil || info.Format != imaging.JPEG || info.Width != 1200 || *f.Height != 600 || banner.Type != "banner" || f.Background != nil {
		t.Errorf("banner %+v, %+v, %v", banner, info, err)
	}
	for name, data := range map[string][]byte{
		"icon":     encode(t, withInk(64, 64, white, blue, disc)),
		"web page": []byte("<html>"),
		"vector":   []byte(`<svg xmlns="http://www.w3.org/2000/svg"><rect width="10" height="10"/></svg>`),
	} {
		if _, err := storeBanner(t, assets, data); err == nil || !logofinder.IsFileFault(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPalettes_Stencils_AreExcluded(t *testing.T) {
	icon := mustRead(t, candidate(logofinder.Icon, 80), withInk(64, 64, color.NRGBA{}, blue, disc))
	stencil := testmust.Get(logofinder.Read(t.Context(), renderer(t), candidate(logofinder.Stencil, 20), []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle r="8" cx="8" cy="8"/></svg>`)))(t)
	got := logofinder.Palettes([]*logofinder.Image{icon, stencil})
	if len(got) != 1 || len(got[0].Inks) != 1 || got[0].Inks[0].Color.Hex() != "#0b5fff" {
		t.Errorf("palettes are %+v", got)
	}
}

func TestDataURL_Image_IsDecoded(t *testing.T) {
	for text, want := range map[string]string{
		"image/svg+xml,%3Csvg/%3E":               "<svg/>",
		"image/svg+xml;utf8,<svg width='100%'/>": "<svg width='100%'/>",
		"image/png;base64,aGVsbG8=":              "hello",
		"image/png;base64,aGVs bG8":              "hello",
		"image/png;base64,aGVs%0AbG8%3D":         "hello",
		"image/png;charset=x;BASE64,aGVsbG8=":    "hello",
		"image/png;base64,***":                   "",
		"image/png":                              "",
		"image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 100))): strings.Repeat("x", 100),
	} {
		got, err := logofinder.DataURL(&url.URL{Scheme: "data", Opaque: text})
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%.50s: %q, %v", text, got, err)
		}
	}
}

func FuzzDataURL(f *testing.F) {
	for _, seed := range []string{"image/png;base64,aGVsbG8=", "image/svg+xml,%3Csvg%3E", ",", ";base64,%", "image/svg+xml;base64,%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := logofinder.DataURL(&url.URL{Scheme: "data", Opaque: text})
		if err == nil && len(data) > len(text) {
			t.Errorf("%q gives %d bytes", text, len(data))
		}
	})
}

// A logo with letters that only browsers have is kept as the vector alone, behind one that can be drawn in all formats.
func TestSelect_LettersOfOtherScripts_AreStoredAsTheVector(t *testing.T) {
	const open = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30">`
	read := func(score float64, svg string) (*logofinder.Image, error) {
		return logofinder.Read(t.Context(), renderer(t), candidate(logofinder.Mark, score), []byte(svg))
	}
	lettered := testmust.Get(read(80, open+`<text x="2" y="25" font-size="24" fill="#0b5fff">星野電</text></svg>`))(t)
	drawn := testmust.Get(read(60, open+`<path d="M0 0h60v30L30 9z" fill="#d60"/></svg>`))(t)
	weak := testmust.Get(read(45, open+`<path d="M0 0h80v9L30 30z" fill="#0a6"/></svg>`))(t)
	stored := testmust.Get(lettered.Store(t.Context(), shelf{}))(t)
	if len(stored.Formats) != 1 || stored.Formats[0].Format != "svg" || stored.Type != "logo" || len(lettered.Colors.Inks) == 0 ||
		lettered.Colors.Inks[0].Color.Hex() != "#0b5fff" {
		t.Errorf("stored as %+v, with the colors %+v", stored, lettered.Colors)
	}
	for _, c := range []struct{ other, first *logofinder.Image }{{drawn, drawn}, {weak, lettered}} {
		if s := logofinder.Select([]*logofinder.Image{lettered, c.other}); len(s.Chosen) != 2 || s.Chosen[0] != c.first {
			t.Errorf("chosen are %d, and the first has the score %v", len(s.Chosen), s.Chosen[0].Score)
		}
	}
	if _, err := read(80, open+`<path d="M0 0h4v4z"/><foreignObject width="90" height="30">Acme</foreignObject></svg>`); !errors.Is(err, logofinder.ErrNotLogo) {
		t.Errorf("HTML: %v", err)
	}
}
