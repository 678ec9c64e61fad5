package logo

import (
	"cmp"
	"context"
	"encoding/binary"
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
// the one of which most is seen. ok is false if none of them can be drawn. Errors: those of Draw.
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
	fit.squared = o.Type == Icon
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
	if last := all[len(all)-1]; !last.swallowed.TooMuch() {
		return last.source, outfit{}, nil
	}
	page := o.Background.Color
	for _, a := range all {
		turnable, err := r.isTurnable(ctx, a.source, page)
		if err != nil {
			return Source{}, outfit{}, err
		}
		if turnable {
			return a.source, outfit{change: turned, color: page}, nil
		}
	}
	if !o.NoPlate {
		plates := []imaging.RGB{imaging.White, imaging.DarkPage}
		slices.SortFunc(plates, func(a, b imaging.RGB) int {
			return cmp.Compare(imaging.Contrast(b, page), imaging.Contrast(a, page))
		})
		for _, plate := range plates {
			for _, a := range all {
				onPlate, err := r.swallowed(ctx, a.source, plate)
				if err != nil && !isFault(err) {
					return Source{}, outfit{}, err
				}
				if err == nil && !onPlate.TooMuch() {
					return a.source, outfit{change: plated, color: plate}, nil
				}
			}
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

// swallowed measures how much of a file a color swallows. It draws the file once for all colors, as a
// PNG that is cached with the others, as the results are. Errors: those of Draw, and those of isFault.
func (r *Renderer) swallowed(ctx context.Context, s Source, page imaging.RGB) (imaging.Swallowed, error) {
	inspected := variant{form: form{size: inspectedSide, background: page}, source: s, kind: kindSwallowed}
	key := inspected.key()
	made, ok := r.drawn.Kept(key)
	if !ok {
		drawing, err := r.get(ctx, variantOf(s, Options{Size: inspectedSide, Format: imaging.PNG}, false))
		if err != nil {
			return imaging.Swallowed{}, err
		}
		made, err = r.drawn.Get(ctx, key, func(ctx context.Context) ([]byte, error) {
			if err := variants.Need(ctx, 2*inspected.cost(inspected.largest())); err != nil {
				return nil, err
			}
			img, _, err := imaging.Decode(drawing.Body, imaging.Limits{})
			if err != nil {
				return nil, err
			}
			m := imaging.SwallowedBy(img, page)
			return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, math.Float64bits(m.Cells)),
				math.Float64bits(m.Parts)), nil
		})
		if err != nil {
			return imaging.Swallowed{}, drawError(ctx, err)
		}
	}
	return imaging.Swallowed{
		Cells: math.Float64frombits(binary.BigEndian.Uint64(made.Body)),
		Parts: math.Float64frombits(binary.BigEndian.Uint64(made.Body[8:])),
	}, nil
}

// isTurnable reports whether a file is a vector that is legible on a page after its swallowed inks are
// turned. A vector that cannot be drawn in other colors is not. Errors: those of Draw.
func (r *Renderer) isTurnable(ctx context.Context, s Source, page imaging.RGB) (bool, error) {
	if s.Format != imaging.SVG {
		return false, nil
	}
	v := variant{form: form{size: inspectedSide, background: page}, source: s, kind: kindTurnable}
	made, err := r.drawn.Get(ctx, v.key(), func(ctx context.Context) ([]byte, error) { return r.draw(ctx, v) })
	switch {
	case isFault(err):
		return false, nil
	case err != nil:
		return false, drawError(ctx, err)
	}
	return string(made.Body) == resultYes, nil
}
