package logo

import (
	"cmp"
	"context"
	"encoding/binary"
	"image"
	"math"
	"slices"

	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/imaging"
	"letterhead/internal/variants"
)

// maxAlternatives limits the logos of a brand that are measured for one background.
const maxAlternatives = 4

// alternative is a logo that can be shown, measured on the background.
type alternative struct {
	source    Source
	swallowed imaging.Swallowed
}

// drawOn draws the logo for a background: the first alternative that is legible there; else the first one whose
// swallowed inks can be turned; else the first one that is legible on a plate, unless the request excludes plates; else
// the one of which most is seen. Inks without enough contrast get it if they can. ok is false if none of them can be
// drawn. Errors: those of Draw.
func (r *Renderer) drawOn(ctx context.Context, b Brand, o Options) (img Image, ok bool, err error) {
	var all []alternative
	order := inOrder(b.Logos, o, nil)
	for _, l := range order[:min(len(order), maxAlternatives)] {
		if l.Type != order[0].Type {
			break
		}
		a, err := r.measure(ctx, l, o)
		switch {
		case isFault(err):
			continue
		case err != nil:
			return Image{}, false, err
		}
		if all = append(all, a); !a.swallowed.TooMuch() {
			break
		}
	}
	if len(all) == 0 {
		return Image{}, false, nil
	}
	source, fit, err := r.dress(ctx, all, o)
	if err != nil {
		return Image{}, false, err
	}
	fit.squared, fit.cut = o.Type == Icon, true
	img, err = r.made(ctx, dressed(source, o, fit))
	if isFault(err) {
		return Image{}, false, nil
	}
	return img, err == nil, err
}

// measure measures the best file of a logo that can be drawn. Errors: those of Draw, and those of isFault.
func (r *Renderer) measure(ctx context.Context, l *eventschemas.Logo, o Options) (a alternative, err error) {
	err = assets.ErrNotFound
	for _, a.source = range tried(filesOf(l, o)) {
		if a.swallowed, err = r.swallowed(ctx, a.source, o.Background.Color); !isFault(err) {
			break
		}
	}
	return a, err
}

// dress chooses one of the alternatives, of which only the last may be legible, and its outfit. Errors: those of Draw.
func (r *Renderer) dress(ctx context.Context, all []alternative, o Options) (Source, outfit, error) {
	page := o.Background.Color
	last := all[len(all)-1]
	changes := []change{turned, both}
	switch isLegible := !last.swallowed.TooMuch(); {
	case isLegible && !last.swallowed.IsWeak():
		return last.source, outfit{}, nil
	case isLegible:
		all, changes = all[len(all)-1:], []change{strengthened}
	}
	var weak *alternative
	for i, a := range all {
		for _, c := range changes {
			fit := outfit{change: c, color: page}
			switch made, err := r.recolored(ctx, a.source, fit); {
			case err != nil:
				return Source{}, outfit{}, err
			case made == resultYes:
				return a.source, fit, nil
			case made == resultWeak && c == turned && weak == nil:
				weak = &all[i]
			}
		}
	}
	switch {
	case !last.swallowed.TooMuch():
		return last.source, outfit{}, nil
	case weak != nil:
		return weak.source, outfit{change: turned, color: page}, nil
	}
	for _, a := range all {
		plate, onPlate, err := r.onPlate(ctx, a.source)
		if err != nil && !isFault(err) {
			return Source{}, outfit{}, err
		}
		if err == nil && !o.NoPlate && !onPlate.TooMuch() {
			return a.source, outfit{change: plated, color: plate}, nil
		}
	}
	most := slices.MinFunc(all, func(a, b alternative) int { return cmp.Compare(a.swallowed.Cells, b.swallowed.Cells) })
	return most.source, outfit{}, nil
}

// dressed returns the variant of a file in its outfit.
func dressed(s Source, o Options, fit outfit) variant {
	v := variantOf(s, o, false)
	v.outfit = fit
	if fit.change == plated && s.Side > 0 && v.size == s.Side {
		v.size = min(o.Size, int(math.Round(float64(s.Side)/(1-2*fit.margin()))))
	}
	return v
}

// swallowed measures how much of a file a color swallows. Errors: those of inspect.
func (r *Renderer) swallowed(ctx context.Context, s Source, page imaging.RGB) (m imaging.Swallowed, err error) {
	shares := []*float64{&m.Cells, &m.Parts, &m.Main}
	v := variant{form: form{size: inspectedSide, background: page}, source: s, kind: kindSwallowed}
	made, err := r.inspect(ctx, v, func(img *image.NRGBA) (out []byte) {
		m = imaging.SwallowedBy(img, page)
		for _, share := range shares {
			out = binary.BigEndian.AppendUint64(out, math.Float64bits(*share))
		}
		return out
	})
	if err != nil {
		return m, err
	}
	for i, share := range shares {
		*share = math.Float64frombits(binary.BigEndian.Uint64(made[8*i:]))
	}
	return m, nil
}

// onPlate chooses the plate for a file, and measures it there. Errors: those of inspect.
func (r *Renderer) onPlate(ctx context.Context, s Source) (plate imaging.RGB, m imaging.Swallowed, err error) {
	v := variant{form: form{size: inspectedSide}, source: s, kind: kindPlate}
	made, err := r.inspect(ctx, v, func(img *image.NRGBA) []byte {
		c := imaging.PlateFor(img)
		return []byte{c.R, c.G, c.B}
	})
	if err != nil {
		return plate, m, err
	}
	plate = imaging.RGB{R: made[0], G: made[1], B: made[2]}
	m, err = r.swallowed(ctx, s, plate)
	return plate, m, err
}

// inspect looks at a file as it is drawn for backgrounds, and caches the result. It draws the file once for all colors,
// as a PNG that is cached with the others. Errors: those of Draw, and those of isFault.
func (r *Renderer) inspect(ctx context.Context, v variant, look func(*image.NRGBA) []byte) ([]byte, error) {
	key := v.key()
	made, ok := r.drawn.Kept(key)
	if ok {
		return made.Body, nil
	}
	plain := variantOf(v.source, Options{Size: inspectedSide, Format: imaging.PNG}, false)
	plain.outfit.cut = true
	drawing, err := r.get(ctx, plain)
	if err != nil {
		return nil, err
	}
	made, err = r.drawn.Get(ctx, key, func(ctx context.Context) ([]byte, error) {
		if err := variants.Need(ctx, 2*v.cost(v.largest())); err != nil {
			return nil, err
		}
		img, _, err := imaging.Decode(drawing.Body, imaging.Limits{})
		if err != nil {
			return nil, err
		}
		return look(img), nil
	})
	if err != nil {
		return nil, drawError(ctx, err)
	}
	return made.Body, nil
}

// recolored returns the recoloredResult of a file; resultNo also for one that cannot be drawn in other colors. Errors:
// those of Draw.
func (r *Renderer) recolored(ctx context.Context, s Source, fit outfit) (string, error) {
	v := variant{form: form{size: inspectedSide}, source: s, kind: kindTurnable, outfit: fit}
	var made []byte
	var err error
	if s.Format == imaging.SVG {
		var kept variants.Image
		kept, err = r.drawn.Get(ctx, v.key(), func(ctx context.Context) ([]byte, error) { return r.draw(ctx, v) })
		made = kept.Body
	} else {
		made, err = r.inspect(ctx, v, func(img *image.NRGBA) []byte {
			after, ok := imaging.Recolor(img, fit.replace)
			if !ok {
				return result(false)
			}
			return recoloredResult(img, after, fit.color)
		})
	}
	switch {
	case isFault(err):
		return resultNo, nil
	case err != nil:
		return "", drawError(ctx, err)
	}
	return string(made), nil
}
