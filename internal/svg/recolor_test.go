package svg_test

import (
	"strings"
	"testing"

	"letterhead/internal/imaging"
	"letterhead/internal/svg"
)

// Black becomes white and red becomes blue, wherever a paint can be written.
func TestRecolor_AnyPaint_IsReplaced(t *testing.T) {
	t.Parallel()
	swap := func(c imaging.RGB) imaging.RGB {
		switch c {
		case imaging.Black:
			return imaging.White
		case imaging.RGB{R: 0xff}:
			return imaging.RGB{B: 0xff}
		}
		return c
	}
	const shape = ` d="M0 0h9v9z"`
	for inside, want := range map[string]string{
		`<path` + shape + ` fill="#000"/>`:                                                                    `fill="#ffffff"`,
		`<path` + shape + ` fill="red"/>`:                                                                     `fill="#0000ff"`,
		`<path` + shape + ` stroke="rgb(255,0,0)" fill="none"/>`:                                              `stroke="#0000ff"`,
		`<path` + shape + ` fill="rgba(0,0,0,0.5)"/>`:                                                         `fill="rgba(255,255,255,0.5)"`,
		`<path` + shape + ` style="fill:red"/>`:                                                               `style="fill:#0000ff"`,
		`<style>.a{fill:red!important}</style><path class="a"` + shape + `/>`:                                 `style="fill:#0000ff"`,
		`<path` + shape + ` fill="lime"/>`:                                                                    `fill="lime"`,
		`<path` + shape + `/>`:                                                                                `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" fill="#ffffff"`,
		`<path` + shape + ` fill="currentColor"/>`:                                                            ` color="#ffffff"`,
		`<linearGradient id="a"><stop offset="1"/></linearGradient><path` + shape + ` fill="url(#a)"/>`:       `<stop offset="1" stop-color="#ffffff"/>`,
		`<linearGradient id="a"><stop stop-color="red"/></linearGradient><path` + shape + ` fill="url(#a)"/>`: `stop-color="#0000ff"`,
		`<mask id="a"><path fill="red"` + shape + `/><path` + shape + `/></mask><path mask="url(#a)" fill="red"` + shape + `/>`: `<mask id="a" fill="black"><path fill="red" d="M0 0h9v9z"/><path d="M0 0h9v9z"/></mask>`,
		`<g fill="red"><mask id="a"><path` + shape + `/></mask></g><path mask="url(#a)"` + shape + `/>`:                         `<g fill="#0000ff"><mask fill="red" id="a">`,
	} {
		recolored, err := svg.Recolor([]byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">`+inside+`</svg>`), swap)
		if err != nil {
			t.Errorf("%s: %v", inside, err)
			continue
		}
		if !strings.Contains(string(recolored), want) && !strings.Contains(string(recolored), strings.Replace(want, `id="a" fill="black"`, `fill="black" id="a"`, 1)) {
			t.Errorf("%s is %s, want %s", inside, recolored, want)
		}
		if again, _ := sanitize(t, string(recolored)); again != string(recolored) {
			t.Errorf("%s is sanitized to %s", recolored, again)
		}
	}
}

func TestFramed_Drawing_IsInTheMiddleOfItsCanvas(t *testing.T) {
	t.Parallel()
	const drawing = `<path d="M0 0h80v40H0z" fill="red"/>`
	const plain = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 40">` + drawing + `</svg>`
	for _, c := range []struct {
		why, in string
		frame   svg.Frame
		want    string
	}{
		{"a square", plain, svg.Frame{Square: true},
			`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 80"><svg viewBox="0 0 80 40" x="0" y="20" width="80" height="40">` + drawing + `</svg></svg>`},
		{"a plate", plain, svg.Frame{Margin: 0.1, Plate: &imaging.White},
			`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 60"><rect width="100" height="60" rx="13.2" style="fill:#ffffff"/><svg viewBox="0 0 80 40" x="10" y="10" width="80" height="40">` + drawing + `</svg></svg>`},
		{"a plate below a style sheet", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 40"><style>rect{opacity:0;fill:red!important}</style>` + drawing + `</svg>`, svg.Frame{Plate: &imaging.White},
			`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 40"><rect width="80" height="40" rx="8.8" style="fill:#ffffff"/><svg viewBox="0 0 80 40" x="0" y="0" width="80" height="40">` + drawing + `</svg></svg>`},
		{"no frame", plain, svg.Frame{}, plain},
		{"a square of a square", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 80">` + drawing + `</svg>`, svg.Frame{Square: true}, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 80">` + drawing + `</svg>`},
		{"a size in pixels", `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" viewBox="0 0 80 40">` + drawing + `</svg>`, svg.Frame{Square: true},
			`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40" width="40" height="40"><svg width="40" height="20" viewBox="0 0 80 40" x="0" y="10">` + drawing + `</svg></svg>`},
		{"no size", `<svg xmlns="http://www.w3.org/2000/svg">` + drawing + `</svg>`, svg.Frame{Square: true}, `<svg xmlns="http://www.w3.org/2000/svg">` + drawing + `</svg>`},
	} {
		framed, err := svg.Framed([]byte(c.in), c.frame)
		if err != nil || string(framed) != c.want {
			t.Errorf("%s: %s, want %s: %v", c.why, framed, c.want, err)
			continue
		}
		if again, _ := sanitize(t, string(framed)); again != string(framed) {
			t.Errorf("%s is sanitized to %s", framed, again)
		}
	}
	if _, err := svg.Framed([]byte("no svg"), svg.Frame{}); err == nil {
		t.Error("text was framed")
	}
}
