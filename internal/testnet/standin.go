package testnet

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// size is a size in pixels.
type size struct{ width, height int }

// Sizes of images for which the page declares none.
var (
	wideSize  = size{400, 100}  // header art
	iconSize  = size{180, 180}  // the usual size of touch icons
	smallSize = size{32, 32}    // of favicons
	photoSize = size{1200, 630} // of share images
)

// Limits of an image's side, because a page may declare any size: maxStandInSide
// keeps drawing cheap, minStandInSide keeps the image visible.
const (
	maxStandInSide = 1200
	minStandInSide = 8
)

// picture serves an image that depends on the URL.
func (s *savedSite) picture(w http.ResponseWriter, u *url.URL) {
	address := u.String()
	seed := fnv.New64a()
	seed.Write([]byte(address))
	random := rand.New(rand.NewPCG(seed.Sum64(), 1))
	at, declared := s.sizes[address]
	ext := strings.ToLower(path.Ext(u.Path))
	photo := (ext == ".jpg" || ext == ".jpeg") && (s.Marks == nil || !s.Marks(address))
	switch {
	case declared:
	case photo:
		at = photoSize
	default:
		at = wideSize
	}
	if ext == ".svg" {
		w.Header().Set("Content-Type", "image/svg+xml")
		w.Write(blocksSVG(random, at))
		return
	}
	img := blocks(random, at)
	if photo {
		img = noise(random, at)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Write(out.Bytes())
}

// blockRows is the height of a drawing in blocks.
const blockRows = 7

// pattern returns a pattern of blocks on a transparent background, with a margin.
func pattern(random *rand.Rand, at size) (columns int, on func(x, y int) bool) {
	columns = max(blockRows, blockRows*at.width/max(at.height, 1))
	columns = min(columns, 8*blockRows)
	cells := make([]bool, columns*blockRows)
	for y := 1; y < blockRows-1; y++ {
		for x := 1; x < columns-1; x++ {
			cells[y*columns+x] = random.IntN(2) == 0
		}
	}
	for x := 1; x < columns-1; x++ { // a bar from side to side, so that the ink has the image's aspect ratio
		cells[(1+blockRows/2)*columns+x] = true
	}
	cells[columns+1], cells[(blockRows-1)*columns-2] = true, true
	return columns, func(x, y int) bool { return cells[min(y, blockRows-1)*columns+min(x, columns-1)] }
}

func ink(random *rand.Rand) color.NRGBA {
	c := [3]uint8{uint8(random.IntN(90)), uint8(random.IntN(160)), uint8(140 + random.IntN(110))}
	random.Shuffle(3, func(i, j int) { c[i], c[j] = c[j], c[i] })
	return color.NRGBA{c[0], c[1], c[2], 255}
}

func blocks(random *rand.Rand, at size) *image.NRGBA {
	c := ink(random)
	columns, on := pattern(random, at)
	img := image.NewNRGBA(image.Rect(0, 0, at.width, at.height))
	for y := range at.height {
		for x := range at.width {
			if on(x*columns/at.width, y*blockRows/at.height) {
				img.SetNRGBA(x, y, c)
			}
		}
	}
	return img
}

func blocksSVG(random *rand.Rand, at size) []byte {
	c := ink(random)
	columns, on := pattern(random, at)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"><path fill="#%02x%02x%02x" d="`, at.width, at.height, columns, blockRows, c.R, c.G, c.B)
	for y := range blockRows {
		for x := range columns {
			if on(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x, y)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return b.Bytes()
}

// noise imitates a photograph: it has many colors, none of them dominant.
func noise(random *rand.Rand, at size) *image.NRGBA {
	const patch = 24 // pixels
	img := image.NewNRGBA(image.Rect(0, 0, at.width, at.height))
	columns := at.width/patch + 1
	colors := make([]color.NRGBA, columns*(at.height/patch+1))
	for i := range colors {
		colors[i] = color.NRGBA{uint8(random.IntN(256)), uint8(random.IntN(256)), uint8(random.IntN(256)), 255}
	}
	for y := range at.height {
		for x := range at.width {
			img.SetNRGBA(x, y, colors[y/patch*columns+x/patch])
		}
	}
	return img
}

// declaredSizes returns the sizes that a page declares for its images and icons, by URL.
func declaredSizes(body []byte, base *url.URL) map[string]size {
	out := map[string]size{}
	root, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return out
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "img":
			at, ok := bounded(number(attribute(n, "width")), number(attribute(n, "height")))
			for _, key := range []string{"src", "data-src", "data-lazy-src"} {
				if u := absolute(base, attribute(n, key)); ok && u != "" {
					out[u] = at
				}
			}
		case "link":
			if u := absolute(base, attribute(n, "href")); u != "" && strings.Contains(strings.ToLower(attribute(n, "rel")), "icon") {
				out[u] = declaredIcon(n)
			}
		}
	}
	return out
}

// declaredIcon returns the largest of an icon's sizes, or the usual size of such icons.
func declaredIcon(n *html.Node) size {
	best := smallSize
	if !strings.EqualFold(attribute(n, "rel"), "icon") && !strings.EqualFold(attribute(n, "rel"), "shortcut icon") {
		best = iconSize
	}
	for i, text := range strings.Fields(strings.ToLower(attribute(n, "sizes"))) {
		w, h, _ := strings.Cut(text, "x")
		if at, ok := bounded(number(w), number(h)); ok && (i == 0 || at.width > best.width) {
			best = at
		}
	}
	return best
}

func bounded(width, height int) (size, bool) {
	ok := width >= minStandInSide && height >= minStandInSide
	return size{min(width, maxStandInSide), min(height, maxStandInSide)}, ok
}

func number(text string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), "px"))
	if err != nil {
		return 0
	}
	return n
}

func absolute(base *url.URL, ref string) string {
	if ref == "" || strings.HasPrefix(ref, "data:") {
		return ""
	}
	u, err := base.Parse(strings.TrimSpace(ref))
	if err != nil {
		return ""
	}
	u.Fragment = ""
	return u.String()
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}
