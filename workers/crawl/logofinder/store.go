package logofinder

import (
	"context"
	"fmt"
	"image"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

const (
	// storedSide is the longest side, in pixels, of a stored raster. Nothing is enlarged.
	storedSide = 1024
	bannerSide = 1200 // the longest side of a stored share image
	minBanner  = 100  // the length of the shorter side below which a share image is an icon
)

// Assets stores files by their content and returns their ids.
type Assets interface {
	Put(ctx context.Context, data []byte, ext string) (id string, err error)
}

// ladder lists the longest sides, in pixels, of the stored rasters of a vector, largest first. 1024 would take another
// 110 ms to draw and 55 ms to encode, for a file that the SVG replaces.
var ladder = []int{512, smallStored}

const smallStored = 256 // the longest side of the small form of a larger raster

// Store stores a logo in every format that is served: a vector as the rebuilt SVG and as PNG and WebP in two sizes, a
// raster as PNG and WebP in its own size and, if that exceeds smallStored, in that size. SVG comes first, then large
// before small. Errors: of the store, of the renderer, ctx.Err(); the logo then has the formats stored so far.
func (p *Image) Store(ctx context.Context, to Assets) (eventschemas.Logo, error) {
	logo := eventschemas.Logo{Type: p.Type(), Formats: []eventschemas.Asset{}, Tags: []string{}}
	if p.Theme != "" {
		logo.Theme = new(p.Theme)
	}
	var rungs []*image.NRGBA // none of a vector that only browsers draw whole
	if p.SVG != nil {
		asset, err := put(ctx, to, p.SVG, "svg", p.Width, p.Height, p.Clear)
		if err != nil {
			return logo, err
		}
		logo.Formats = append(logo.Formats, asset)
		if !p.Lettered {
			if rungs, err = p.rungs(ctx); err != nil {
				return logo, err
			}
		}
	} else {
		rungs = []*image.NRGBA{imaging.Scale(p.Raster, storedSide)}
		if p.side() > smallStored {
			rungs = append(rungs, imaging.Scale(rungs[0], smallStored))
		}
	}
	for _, img := range rungs {
		assets, err := putRaster(ctx, to, img, p.Clear)
		logo.Formats = append(logo.Formats, assets...)
		if err != nil {
			return logo, err
		}
	}
	return logo, nil
}

// rungs draws a vector in the sizes of the ladder. The size for analysis exists already.
func (p *Image) rungs(ctx context.Context) ([]*image.NRGBA, error) {
	var out []*image.NRGBA
	for _, side := range ladder {
		if side == analysisSide {
			out = append(out, p.Raster)
			continue
		}
		img, err := p.draw.Render(ctx, p.SVG, side)
		switch {
		case err == nil:
			out = append(out, img)
		case !IsFileFault(err):
			return nil, err
		}
		// A vector that takes too much in this size is kept in the others: a wide blur may exceed the limit at 512
		// pixels, but not at the 256 of the analysis.
	}
	return out, nil
}

// putRaster stores a raster as PNG and WebP. On an error it returns the formats stored so far.
func putRaster(ctx context.Context, to Assets, img *image.NRGBA, clear bool) (out []eventschemas.Asset, err error) {
	for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		encode := imaging.EncodePNG
		if format == imaging.WebP {
			encode = imaging.EncodeWebP
		}
		data, err := encode(img)
		if err != nil {
			return out, err
		}
		asset, err := put(ctx, to, data, string(format), img.Rect.Dx(), img.Rect.Dy(), clear)
		if err != nil {
			return out, err
		}
		out = append(out, asset)
	}
	return out, nil
}

// Maximum memory for encoding, in bytes per pixel.
const (
	heldByLogo  = 28 // as WebP: pixels, residuals, match positions, symbols
	heldByImage = 12 // as JPEG: pixels, a copy on a background, the file
)

// StoreCost returns the memory, in bytes, that Store needs at most in addition to the image itself.
func (p *Image) StoreCost() int64 {
	if p.SVG != nil {
		return heldByLogo * int64(ladder[0]) * int64(ladder[0])
	}
	if p.Raster == nil {
		return 0
	}
	cost := int64(heldByLogo * len(p.Raster.Pix) / 4)
	if p.side() > storedSide {
		cost += int64(len(p.Raster.Pix)) // scaled down
	}
	return cost
}

// CutCost is the memory, in bytes, that As and storing need at most in addition to the pixels of a file that was opened
// for its sprites: a piece, and its scaled copies.
const CutCost = 2 * 4 * maxSpritePixels

// ImageCost is the memory, in bytes, that StoreBanner and StoreImage need at most in addition to the file's pixels.
const ImageCost = heldByImage * bannerSide * bannerSide

// StoreBanner stores a share image as JPEG on white. Errors: as imaging,
// of the store, ErrNotLogo for an image that is too small, and for a vector.
func (f *File) StoreBanner(ctx context.Context, to Assets) (eventschemas.Image, error) {
	return f.storeImage(ctx, to, "banner", minBanner)
}

// StoreImage stores an image of the page as JPEG on white. It returns the errors of StoreBanner.
func (f *File) StoreImage(ctx context.Context, to Assets) (eventschemas.Image, error) {
	return f.storeImage(ctx, to, "other", minImageSide)
}

func (f *File) storeImage(ctx context.Context, to Assets, kind string, least int) (eventschemas.Image, error) {
	out := eventschemas.Image{Type: kind, Formats: []eventschemas.Asset{}, Tags: []string{}}
	if f.svg != nil {
		return out, fmt.Errorf("%w: a vector", ErrNotLogo)
	}
	img := imaging.Scale(f.Pixels, bannerSide)
	w, h := img.Rect.Dx(), img.Rect.Dy()
	if min(w, h) < least {
		return out, fmt.Errorf("%w: an image of %d×%d pixels", ErrNotLogo, w, h)
	}
	jpeg, err := imaging.EncodeJPEG(img, imaging.White)
	if err != nil {
		return out, err
	}
	asset, err := put(ctx, to, jpeg, "jpeg", w, h, false)
	if err != nil {
		return out, err
	}
	out.Formats = append(out.Formats, asset)
	return out, nil
}

func put(ctx context.Context, to Assets, data []byte, ext string, width, height int,
	clear bool) (eventschemas.Asset, error) {
	id, err := to.Put(ctx, data, ext)
	if err != nil {
		return eventschemas.Asset{}, fmt.Errorf("store a %s of %d bytes: %w", ext, len(data), err)
	}
	asset := eventschemas.Asset{ID: id, Format: ext, Size: int64(len(data))}
	if width > 0 && height > 0 {
		asset.Width, asset.Height = &width, &height
	}
	if clear {
		asset.Background = new("transparent")
	}
	return asset, nil
}
