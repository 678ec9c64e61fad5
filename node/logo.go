package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/projections/brands"
	"letterhead/readapi/logo"
)

// DrawnLogo is a drawn logo that a command prints, perhaps in another process.
type DrawnLogo struct {
	Body   []byte `json:"body"` // base64 in JSON
	Format string `json:"format"`
	Size   string `json:"size"`
	From   string `json:"from"`
}

// DrawLogo draws a logo from the index, as the endpoint does for a client without a key.
func (n *Node) DrawLogo(ctx context.Context, domain string, o logo.Options) (DrawnLogo, error) {
	if err := n.Operations.Reads.CatchUp(ctx); err != nil {
		return DrawnLogo{}, err
	}
	b := logo.Brand{Domain: domain}
	entry, err := n.Models.Brands.Get(ctx, domain)
	if err != nil && !errors.Is(err, brands.ErrNotFound) {
		return DrawnLogo{}, err
	}
	if err == nil {
		looks, err := entry.Looks()
		if err != nil {
			return DrawnLogo{}, err
		}
		if !looks.Restricted {
			b.Name, b.Logos = looks.Name, looks.Logos
		}
	}
	renderer, err := n.drawing.openLogos()
	if err != nil {
		return DrawnLogo{}, err
	}
	image, err := renderer.Draw(ctx, b, o)
	if err != nil {
		return DrawnLogo{}, err
	}
	if image.Fallback != "" && o.Fallback == logo.NotFound {
		return DrawnLogo{}, fmt.Errorf("no logo of %s is known", domain)
	}
	info, err := imaging.Probe(image.Body)
	if err != nil {
		return DrawnLogo{}, err
	}
	out := DrawnLogo{Body: image.Body, Format: string(info.Format),
		Size: fmt.Sprintf("%d × %d px", info.Width, info.Height), From: "fallback: " + string(o.Fallback)}
	if info.Format == imaging.SVG {
		out.Size = "a vector"
	}
	if image.Fallback == "" {
		out.From = describeSource(b.Logos, image.From)
	}
	return out, nil
}

// describeSource describes the logo that a stored file belongs to, such as "symbol, dark ink (svg)".
func describeSource(logos []eventschemas.Logo, source logo.Source) string {
	for _, l := range logos {
		if slices.ContainsFunc(l.Formats, func(f eventschemas.Asset) bool { return f.ID == source.ID }) {
			ink := ""
			if source.Ink != logo.Any {
				ink = ", " + string(source.Ink) + " ink"
			}
			return fmt.Sprintf("%s%s (%s)", l.Type, ink, source.Format)
		}
	}
	return string(source.Format)
}
