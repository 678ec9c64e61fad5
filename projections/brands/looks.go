package brands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

// Looks is the data from which a logo is drawn.
type Looks struct {
	Name       string // "" if unknown
	Logos      []eventschemas.Logo
	Colors     []eventschemas.Color
	Restricted bool // adult content; its record has no data on purpose
}

// looksBody has the parts of a body that Looks reads; see body.go.
type looksBody struct {
	Name  *string `json:"name"`
	Logos []struct {
		Type    string  `json:"type"`
		Theme   *string `json:"theme"`
		Formats []struct {
			Src        string  `json:"src"`
			Format     string  `json:"format"`
			Background *string `json:"background"`
			Width      *int    `json:"width"`
			Height     *int    `json:"height"`
			Size       int64   `json:"size"`
		} `json:"formats"`
		Tags []string `json:"tags"`
	} `json:"logos"`
	Colors      []eventschemas.Color `json:"colors"`
	NSFW        bool                 `json:"isNsfw"`
	Restriction *struct{}            `json:"restriction"`
}

// LooksOf returns what Looks would read from the view's body.
func LooksOf(v brand.View) Looks {
	looks := Looks{Logos: v.Record.Logos, Colors: v.Record.Colors,
		Restricted: v.Record.NSFW || v.Record.Restriction != nil}
	if v.Record.Name != nil {
		looks.Name = *v.Record.Name
	}
	return looks
}

// Looks parses the brand's logos from its body on the first call; the result must not be changed. An
// error means that the body was not made by Render.
func (e *Entry) Looks() (*Looks, error) {
	if known := e.looks.Load(); known != nil {
		return known, nil
	}
	var body looksBody
	if err := json.Unmarshal(bytes.ReplaceAll(e.Body.marked, []byte{baseURLMark}, nil), &body); err != nil {
		return nil, fmt.Errorf("read the logos of %s: %w", e.Domain, err)
	}
	looks := &Looks{Colors: body.Colors, Restricted: body.NSFW || body.Restriction != nil}
	if body.Name != nil {
		looks.Name = *body.Name
	}
	for _, l := range body.Logos {
		logo := eventschemas.Logo{Type: l.Type, Theme: l.Theme, Tags: l.Tags}
		for _, f := range l.Formats {
			logo.Formats = append(logo.Formats, eventschemas.Asset{
				ID: strings.TrimSuffix(path.Base(f.Src), "."+f.Format), Format: f.Format, Background: f.Background,
				Width: f.Width, Height: f.Height, Size: f.Size,
			})
		}
		looks.Logos = append(looks.Logos, logo)
	}
	e.looks.Store(looks)
	return looks, nil
}
