package logo

import (
	"context"
	"image"
	"math"
)

const (
	// leastContrast with white, as WCAG counts it, is what ink needs to be told from the page at all. APCA, which
	// has a bound for that where WCAG has none, calls Lc 15 the point of invisibility; of gray on white that is 1.31
	// (#e1e1e1). Yellow like Python's (#ffd43b) has 1.4.
	leastContrast = 1.3
	// mostUnseen is the share of its ink that a logo may lose on white. In the starter index the white rims of marks,
	// and white letters that are open to the edge of their plate, take up to 0.36, and those logos are plainly seen;
	// white words beside a mark take 0.8 and more.
	mostUnseen = 0.4
)

// What is kept of a look at a file.
const (
	looksPale = "pale"
	looksWell = "seen"
)

func paleness(img *image.NRGBA) []byte {
	if unseenOnWhite(img) > mostUnseen {
		return []byte(looksPale)
	}
	return []byte(looksWell)
}

// pale says whether a file would hardly be seen on white. It is looked at once, and what was seen is kept among
// the pictures. Errors: those of Draw, and those of isFault.
func (s *Studio) pale(ctx context.Context, from Source) (bool, error) {
	look, err := s.made(ctx, lookAt(from))
	return err == nil && string(look.Body) == looksPale, err
}

// eye looks at files for Choose, and remembers what kept it from looking.
type eye struct {
	studio *Studio
	ctx    context.Context
	err    error
}

func (e *eye) pale(s Source) bool {
	if e.err != nil {
		return true
	}
	pale, err := e.studio.pale(e.ctx, s)
	if isFault(err) {
		return true // what cannot be drawn is not seen
	}
	e.err = err
	return pale
}

// unseenOnWhite is the share of a picture's ink that a white page swallows: what has too little contrast with it,
// and is not enclosed by ink that has enough. White within an outline or on a plate is seen.
func unseenOnWhite(img *image.NRGBA) float64 {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	swallowed := make([]bool, w*h)
	var edge []image.Point
	swallow := func(x, y int) {
		if x < 0 || y < 0 || x >= w || y >= h || swallowed[y*w+x] || contrastWithWhite(img.Pix[y*img.Stride+4*x:]) >= leastContrast {
			return
		}
		swallowed[y*w+x] = true
		edge = append(edge, image.Pt(x, y))
	}
	for x := range w {
		swallow(x, 0)
		swallow(x, h-1)
	}
	for y := range h {
		swallow(0, y)
		swallow(w-1, y)
	}
	for len(edge) > 0 {
		p := edge[len(edge)-1]
		edge = edge[:len(edge)-1]
		swallow(p.X-1, p.Y)
		swallow(p.X+1, p.Y)
		swallow(p.X, p.Y-1)
		swallow(p.X, p.Y+1)
	}
	ink, unseen := 0, 0
	for y := range h {
		for x := range w {
			alpha := int(img.Pix[y*img.Stride+4*x+3])
			ink += alpha
			if swallowed[y*w+x] {
				unseen += alpha
			}
		}
	}
	if ink == 0 {
		return 1
	}
	return float64(unseen) / float64(ink)
}

// contrastWithWhite is the contrast ratio of WCAG between white and a pixel that lies on it.
func contrastWithWhite(pixel []uint8) float64 {
	alpha := int(pixel[3])
	light := func(v uint8) float64 {
		return linearLight[(int(v)*alpha+math.MaxUint8*(math.MaxUint8-alpha)+math.MaxUint8/2)/math.MaxUint8]
	}
	return 1.05 / (0.2126*light(pixel[0]) + 0.7152*light(pixel[1]) + 0.0722*light(pixel[2]) + 0.05)
}

// linearLight is the linear light of sRGB's bytes.
var linearLight = func() (table [math.MaxUint8 + 1]float64) {
	for i := range table {
		if v := float64(i) / math.MaxUint8; v <= 0.04045 {
			table[i] = v / 12.92
		} else {
			table[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return table
}()
