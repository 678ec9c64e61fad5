package imaging

import (
	"image"

	"github.com/nfnt/resize"
)

// Scale makes a picture's longer side at most longest pixels, keeping its ratio (Lanczos3). It never makes
// a picture larger: one that fits is returned as it is, the same value. longest below 1 counts as 1.
func Scale(img *image.NRGBA, longest int) *image.NRGBA {
	longest = max(longest, 1)
	w, h := img.Rect.Dx(), img.Rect.Dy()
	if max(w, h) <= longest {
		return img
	}
	width, height := longest, longest
	if w >= h {
		height = max(1, (h*longest+w/2)/w)
	} else {
		width = max(1, (w*longest+h/2)/h)
	}
	// Resize takes a size of 0 as "keep the ratio". On premultiplied pixels, which it gives back in any
	// case, it takes a third less time.
	return toNRGBA(resize.Resize(uint(width), uint(height), premultiplied(img), resize.Lanczos3))
}

func premultiplied(img *image.NRGBA) *image.RGBA {
	out := &image.RGBA{Pix: make([]uint8, len(img.Pix)), Stride: img.Stride, Rect: img.Rect}
	for i := 0; i+3 < len(img.Pix); i += 4 {
		from, to := img.Pix[i:i+4:i+4], out.Pix[i:i+4:i+4]
		switch a := uint32(from[3]); a {
		case 0:
		case 0xff:
			copy(to, from)
		default:
			to[0] = uint8((uint32(from[0])*a + 0x7f) / 0xff)
			to[1] = uint8((uint32(from[1])*a + 0x7f) / 0xff)
			to[2] = uint8((uint32(from[2])*a + 0x7f) / 0xff)
			to[3] = uint8(a)
		}
	}
	return out
}
