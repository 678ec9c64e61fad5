package picture

import (
	"context"
	"fmt"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

const (
	// storedSide is the longest side, in pixels, of a stored raster. Nothing is made larger.
	storedSide = 1024
	// bannerSide is that of a stored share image.
	bannerSide = 1200
	// minBanner is the shorter side below which a share image is an icon.
	minBanner = 100
	// maxBannerPixels bounds a share image as it came.
	maxBannerPixels = imaging.MaxPixels
)

// Assets keeps files by their content and returns their ids.
type Assets interface {
	Put(ctx context.Context, data []byte, ext string) (id string, err error)
}

// Store keeps a logo in every format that is served: a vector as it was rebuilt, a raster as PNG and WebP.
func (p *Picture) Store(ctx context.Context, to Assets) (eventschemas.Logo, error) {
	logo := eventschemas.Logo{Type: p.Type(), Formats: []eventschemas.Asset{}, Tags: []string{}}
	if p.Theme != "" {
		theme := p.Theme
		logo.Theme = &theme
	}
	if p.SVG != nil {
		asset, err := put(ctx, to, p.SVG, "svg", p.Width, p.Height, p.Clear)
		if err != nil {
			return logo, err
		}
		logo.Formats = append(logo.Formats, asset)
		return logo, nil
	}
	png, err := imaging.EncodePNG(p.Raster)
	if err != nil {
		return logo, err
	}
	webp, err := imaging.EncodeWebP(p.Raster)
	if err != nil {
		return logo, err
	}
	for _, f := range []struct {
		data []byte
		ext  string
	}{{png, "png"}, {webp, "webp"}} {
		asset, err := put(ctx, to, f.data, f.ext, p.Width, p.Height, p.Clear)
		if err != nil {
			return logo, err
		}
		logo.Formats = append(logo.Formats, asset)
	}
	return logo, nil
}

// StoreBanner keeps a share image as JPEG on white. Errors: those of imaging, of the store, ErrNotLogo for
// what is too small to be a picture.
func StoreBanner(ctx context.Context, to Assets, data []byte) (eventschemas.Image, error) {
	banner := eventschemas.Image{Type: "banner", Formats: []eventschemas.Asset{}, Tags: []string{}}
	img, _, err := imaging.Decode(data, imaging.Limits{Bytes: MaxBytes, Pixels: maxBannerPixels})
	if err != nil {
		return banner, err
	}
	img = imaging.Scale(img, bannerSide)
	w, h := img.Rect.Dx(), img.Rect.Dy()
	if min(w, h) < minBanner {
		return banner, fmt.Errorf("%w: a share image of %d×%d pixels", ErrNotLogo, w, h)
	}
	jpeg, err := imaging.EncodeJPEG(img, imaging.White)
	if err != nil {
		return banner, err
	}
	asset, err := put(ctx, to, jpeg, "jpeg", w, h, false)
	if err != nil {
		return banner, err
	}
	banner.Formats = append(banner.Formats, asset)
	return banner, nil
}

func put(ctx context.Context, to Assets, data []byte, ext string, width, height int, clear bool) (eventschemas.Asset, error) {
	id, err := to.Put(ctx, data, ext)
	if err != nil {
		return eventschemas.Asset{}, fmt.Errorf("store a %s of %d bytes: %w", ext, len(data), err)
	}
	asset := eventschemas.Asset{ID: id, Format: ext, Size: int64(len(data))}
	if width > 0 && height > 0 {
		asset.Width, asset.Height = &width, &height
	}
	if clear {
		transparent := "transparent"
		asset.Background = &transparent
	}
	return asset, nil
}
