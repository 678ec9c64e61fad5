package readapi_test

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"
	"net/url"
	"strings"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/readapi/openapi"
)

// Requirements of derived requests for logos beyond those of other endpoints: images to draw from, and
// rules that the document has in prose only.

// ofLogos reports whether an operation is one of the logo paths.
func ofLogos(o *openapi.Operation) bool { return strings.HasPrefix(o.Path, "/logo/") }

// namesDomain reports whether the path of a request for a logo has a domain, which no schema can express.
func (r *derived) namesDomain() bool {
	domain, err := url.PathUnescape(r.path["domain"])
	if err == nil {
		_, err = brand.RegistrableDomain(domain)
	}
	return err == nil
}

// excludesScheme reports whether a request for a logo has scheme=auto beside a parameter that it excludes, which no
// schema can express: see the description of scheme.
func (r *derived) excludesScheme() bool {
	target, err := url.Parse(r.target())
	if err != nil || !target.Query().Has("scheme") {
		return false
	}
	query := target.Query()
	return query.Has("theme") || query.Has("format") && query.Get("format") != "svg" ||
		query.Has("background") && !strings.HasPrefix(query.Get("background"), "auto-")
}

// drawnLogo is a stored logo for tests: a vector.
const drawnLogo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 32"><path d="M0 0h64v32H0z" fill="#0b57d0"/></svg>`

// drawnRecord returns a record whose logo is stored, as a vector and as a raster.
func (d *deriver) drawnRecord(name string) eventschemas.Record {
	r, width, height := record(name), 64, 32
	stored := func(file []byte, format string) eventschemas.Asset {
		return eventschemas.Asset{ID: d.s.stored(file, format), Format: format, Background: ref("transparent"), Width: &width, Height: &height, Size: int64(len(file))}
	}
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.Draw(img, img.Rect, image.Black, image.Point{}, draw.Src)
	var raster bytes.Buffer
	d.s.must(png.Encode(&raster, img))
	r.Logos[0].Formats = []eventschemas.Asset{stored([]byte(drawnLogo), "svg"), stored(raster.Bytes(), "png")}
	return r
}
