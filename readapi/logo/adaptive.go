package logo

import (
	"context"
	"crypto/sha256"

	"letterhead/internal/imaging"
	"letterhead/internal/svg"
	"letterhead/internal/variants"
)

// maxAdaptive limits an SVG for both color schemes, in bytes: a raster is better than a larger one, of which only half
// is shown.
const maxAdaptive = 32 << 10

// drawAdaptive draws an SVG that follows prefers-color-scheme, from what is drawn on auto-light and on auto-dark. ok is
// false if these are not two different vectors, or larger than maxAdaptive. Errors: those of Draw.
func (r *Renderer) drawAdaptive(ctx context.Context, b Brand, o Options) (img Image, ok bool, err error) {
	if best, ok := first(b.Logos, o, nil); !ok || best.Format != imaging.SVG {
		return Image{}, false, nil
	}
	var drawn [2]Image
	for i, color := range []imaging.RGB{imaging.White, imaging.DarkPage} {
		on := Options{Type: o.Type, Size: o.Size, Format: imaging.SVG, NoPlate: o.NoPlate,
			Background: Background{Color: color, Set: true}}
		if drawn[i], err = r.Draw(ctx, b, on); err != nil {
			return Image{}, false, err
		}
		if drawn[i].Fallback != "" || drawn[i].ContentType != ContentTypeSVG {
			return Image{}, false, nil
		}
	}
	light, dark := drawn[0], drawn[1]
	size := int64(len(light.Body) + len(dark.Body))
	if light.ETag == dark.ETag || size > maxAdaptive {
		return Image{}, false, nil
	}
	key := sha256.Sum256(append([]byte{renderVersion, byte(kindAdaptive)}, light.ETag+dark.ETag...))
	made, err := r.drawn.Get(ctx, key, func(ctx context.Context) ([]byte, error) {
		if err := variants.Need(ctx, size); err != nil {
			return nil, err
		}
		return svg.Adaptive(light.Body, dark.Body)
	})
	if err != nil {
		return Image{}, false, drawError(ctx, err)
	}
	img = imageOf(made)
	img.From = light.From
	img.From.Ink = Any
	return img, true, nil
}
