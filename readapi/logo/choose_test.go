package logo_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/readapi/logo"
)

// record parses logos like "icon/dark svg png256 webp256, logo png512"; ? is a file of unknown size. A
// file's id is its position: "0.2" is the third file of the first logo.
func record(text string) []eventschemas.Logo {
	var out []eventschemas.Logo
	for i, part := range strings.Split(text, ",") {
		words := strings.Fields(part)
		kind, theme, themed := strings.Cut(words[0], "/")
		l := eventschemas.Logo{Type: kind}
		if themed {
			l.Theme = &theme
		}
		for j, word := range words[1:] {
			format := strings.TrimRight(word, "0123456789?")
			f := eventschemas.Asset{ID: strconv.Itoa(i) + "." + strconv.Itoa(j), Format: format}
			if side, err := strconv.Atoi(word[len(format):]); err == nil {
				short := side/2 + 1
				f.Width, f.Height = &side, &short
				if i%2 == 1 {
					f.Width, f.Height = &short, &side
				}
			}
			l.Formats = append(l.Formats, f)
		}
		out = append(out, l)
	}
	return out
}

func ids(sources []logo.Source) string {
	var out []string
	for _, s := range sources {
		out = append(out, s.ID)
	}
	return strings.Join(out, " ")
}

func TestChoose_Record_OrdersSources(t *testing.T) {
	t.Parallel()
	icon := logo.Options{Type: logo.Icon, Size: 128, Format: imaging.WebP}
	with := func(change func(*logo.Options)) logo.Options { o := icon; change(&o); return o }
	symbol := with(func(o *logo.Options) { o.Type = logo.Symbol })
	full := with(func(o *logo.Options) { o.Type = logo.Full })
	light := with(func(o *logo.Options) { o.Theme = logo.Light })
	dark := with(func(o *logo.Options) { o.Theme = logo.Dark })
	svg := with(func(o *logo.Options) { o.Format = imaging.SVG })
	big := with(func(o *logo.Options) { o.Size = 1024 })
	exact := with(func(o *logo.Options) { o.Size = 256 })
	exactPNG := with(func(o *logo.Options) { o.Size, o.Format = 256, imaging.PNG })
	for _, c := range []struct {
		why, logos string
		o          logo.Options
		want       string
	}{
		{"icon, symbol, logo, other", "other svg, logo svg, symbol svg, icon svg", icon, "3.0 2.0 1.0 0.0"},
		{"symbol, icon, logo, other", "other svg, logo svg, symbol svg, icon svg", symbol, "2.0 3.0 1.0 0.0"},
		{"logo, symbol, icon, other", "other svg, icon svg, symbol svg, logo svg", full, "3.0 2.0 1.0 0.0"},
		{"an unknown type is other", "banner svg, icon svg, other svg", icon, "1.0 0.0 2.0"},
		{"the type before the ink", "symbol/light svg, icon/dark svg", light, "1.0 0.0"},
		{"the type before the quality", "symbol svg, icon png16", icon, "1.0 0.0"},
		{"the requested ink", "icon/dark svg, icon/light svg", light, "1.0 0.0"},
		{"the ink before the quality", "icon/dark svg, icon/light png16", light, "1.0 0.0"},
		{"its own background before the other ink", "icon/dark svg, icon png64", light, "1.0 0.0"},
		{"the other ink rather than none", "icon/dark svg", light, "0.0"},
		{"an unknown theme is none", "icon/dark svg, icon/blue svg, icon/light svg", light, "2.0 1.0 0.0"},
		{"dark for dark", "icon/light svg, icon svg, icon/dark svg", dark, "2.0 1.0 0.0"},
		{"nothing requested: light last", "icon/light svg, icon/dark png16, icon svg", icon, "2.0 1.0 0.0"},
		{"nothing requested: dark and none are equal", "icon svg, icon/dark svg", icon, "0.0 1.0"},
		{"a vector", "icon png512, icon svg", icon, "1.0 0.0"},
		{"large enough", "icon png64, icon webp128", icon, "1.0 0.0"},
		{"of large ones the record's first", "icon png512, icon png128", icon, "0.0 1.0"},
		{"of small ones the largest", "icon png32, icon png64, icon png48", icon, "1.0 2.0 0.0"},
		{"unknown sizes last", "icon png?, icon png16", icon, "1.0 0.0"},
		{"a logo's own raster before the next vector", "icon svg png512 png256, icon svg", icon, "0.0 0.2 0.1 1.0"},
		{"nearest larger, then larger, then the largest smaller", "icon png64 png512 png32 png? png256", icon, "0.4 0.1 0.0 0.2 0.3"},
		{"exactly large enough", "icon png512 png128 png127", icon, "0.1 0.0 0.2"},
		{"larger than all", "icon png256 png512", big, "0.1 0.0"},
		{"png decodes faster", "icon jpeg256 webp256 png256", icon, "0.2 0.1 0.0"},
		{"the unchanged file", "icon png256 webp256", exact, "0.1 0.0"},
		{"the unchanged file, png", "icon webp256 png256", exactPNG, "0.1 0.0"},
		{"larger than all, unchanged", "icon png512 webp512", big, "0.1 0.0"},
		{"svg wants the vector", "icon png256 svg", svg, "0.1 0.0"},
		{"svg without a vector", "icon webp256 png256", svg, "0.1 0.0"},
		{"svg keeps to the type", "icon png256, logo svg", svg, "0.0 1.0"},
		{"unsupported formats", "icon, icon gif64 svgz ico16, icon png16", icon, "2.0"},
		{"no usable file", "icon, logo avif512", icon, ""},
	} {
		if got := ids(logo.Choose(record(c.logos), c.o, nil)); got != c.want {
			t.Errorf("%s: of %q chose %q, want %q", c.why, c.logos, got, c.want)
		}
	}
	if got := logo.Choose(nil, icon, nil); got != nil {
		t.Errorf("Choose(nil) = %v", got)
	}
}

// An entry of inspected names a logo by its position in the record, and the inspected file.
func TestChoose_PaleInk_IsLast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, logos string
		o          logo.Options
		pale       string // pale logos
		want       string
		inspected  string // files
	}{
		{"the record's first", "icon/light svg, icon/dark svg", logo.Options{}, "", "0.0 1.0", "0.0"},
		{"but not a pale one", "icon/light svg, icon/dark svg", logo.Options{}, "0", "1.0 0.0", "0.0"},
		{"nor before one without a theme", "icon/light svg, icon svg", logo.Options{}, "0", "1.0 0.0", "0.0"},
		{"a dark one that is first", "icon/dark svg, icon/light svg", logo.Options{}, "", "0.0 1.0", "1.0"},
		{"of two light ones the visible one", "icon/light svg, icon/light svg", logo.Options{}, "0", "1.0 0.0", "0.0 1.0"},
		{"of pale ones the first", "icon/light svg, icon/light svg", logo.Options{}, "0 1", "0.0 1.0", "0.0 1.0"},
		{"pale in the requested type before another type", "icon/light svg, symbol/dark svg", logo.Options{}, "0", "0.0 1.0", ""},
		{"no other logo of the type", "icon/light svg, icon/dark gif16, symbol svg", logo.Options{}, "0", "0.0 2.0", ""},
		{"light is requested", "icon/dark svg, icon/light svg", logo.Options{Theme: logo.Light}, "1", "1.0 0.0", ""},
		{"dark is requested", "icon/light svg, icon/dark svg", logo.Options{Theme: logo.Dark}, "", "1.0 0.0", ""},
		{"equal ink, the vector", "icon/light png512, icon/dark svg", logo.Options{}, "", "1.0 0.0", "0.0"},
		{"a vector before a raster that is too small", "icon/dark png32, icon/light svg", logo.Options{}, "", "1.0 0.0", "1.0"},
		{"a pale vector", "icon/dark png32, icon/light svg", logo.Options{}, "1", "0.0 1.0", "1.0"},
		{"inspects the same file for any size", "icon/light png16 png512 png128 webp200, icon", logo.Options{Size: 512}, "", "0.1 0.3 0.2 0.0", ""},
		{"inspects the same file for any size", "icon/light png16 png512 png128 webp200, icon png16", logo.Options{Size: 512}, "", "0.1 0.3 0.2 0.0 1.0", "0.2"},
		{"other types", "icon svg, logo/light svg, logo/dark svg", logo.Options{}, "1", "0.0 2.0 1.0", "1.0"},
	} {
		if c.o.Type = logo.Icon; c.o.Size == 0 {
			c.o.Size = 128
		}
		var inspected []string
		got := logo.Choose(record(c.logos), c.o, func(s logo.Source) bool {
			inspected = append(inspected, s.ID)
			place, _, _ := strings.Cut(s.ID, ".")
			return slices.Contains(strings.Fields(c.pale), place)
		})
		if ids(got) != c.want || strings.Join(inspected, " ") != c.inspected {
			t.Errorf("%s: of %q chose %q, want %q; inspected %q, want %q", c.why, c.logos, ids(got), c.want, inspected, c.inspected)
		}
	}
}

func TestChoose_Record_DescribesSources(t *testing.T) {
	t.Parallel()
	got := logo.Choose(record("icon/light png16 svg, icon/dark webp64, icon jpeg200"), logo.Options{Type: logo.Icon, Size: 100, Theme: logo.Light, Format: imaging.PNG}, nil)
	want := []logo.Source{{ID: "0.1", Format: imaging.SVG, Type: logo.Icon, Ink: logo.Light}, {ID: "0.0", Format: imaging.PNG, Side: 16, Type: logo.Icon, Ink: logo.Light},
		{ID: "2.0", Format: imaging.JPEG, Side: 200, Type: logo.Icon}, {ID: "1.0", Format: imaging.WebP, Side: 64, Type: logo.Icon, Ink: logo.Dark}}
	if !slices.Equal(got, want) {
		t.Errorf("chose %+v, want %+v", got, want)
	}
}

// For any record, each usable file is returned once, and the first is the best by each rule in turn.
func TestChoose_RandomRecord_BestFirst(t *testing.T) {
	t.Parallel()
	number := rapid.SampledFrom([]int{-1, 0, 1, 16, 64, 127, 128, 129, 256, 512, 1024, 9999})
	size := rapid.Custom(func(t *rapid.T) *int {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		n := number.Draw(t, "n")
		return &n
	})
	asset := rapid.Custom(func(t *rapid.T) eventschemas.Asset {
		return eventschemas.Asset{Format: rapid.SampledFrom([]string{"svg", "png", "webp", "jpeg", "gif", "", "PNG"}).Draw(t, "format"),
			Width: size.Draw(t, "width"), Height: size.Draw(t, "height")}
	})
	themes := []string{"light", "dark", "", "blue"}
	one := rapid.Custom(func(t *rapid.T) eventschemas.Logo {
		l := eventschemas.Logo{Type: rapid.SampledFrom([]string{"icon", "symbol", "logo", "other", "", "x"}).Draw(t, "type"), Formats: rapid.SliceOfN(asset, 0, 5).Draw(t, "formats")}
		if i := rapid.IntRange(0, len(themes)).Draw(t, "theme"); i < len(themes) {
			l.Theme = &themes[i]
		}
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		logos := rapid.SliceOfN(one, 0, 5).Draw(t, "logos")
		where := map[string]*eventschemas.Logo{}
		for i := range logos {
			for j := range logos[i].Formats {
				f := &logos[i].Formats[j]
				f.ID = strconv.Itoa(i) + "." + strconv.Itoa(j)
				if slices.Contains([]string{"svg", "png", "webp", "jpeg"}, f.Format) {
					where[f.ID] = &logos[i]
				}
			}
		}
		o := logo.Options{Type: rapid.SampledFrom([]logo.Type{logo.Icon, logo.Symbol, logo.Full}).Draw(t, "type"), Size: rapid.IntRange(16, 1024).Draw(t, "size"),
			Format: rapid.SampledFrom([]imaging.Format{imaging.WebP, imaging.PNG, imaging.SVG, imaging.JPEG}).Draw(t, "format"),
			Theme:  rapid.SampledFrom([]logo.Theme{logo.Any, logo.Light, logo.Dark}).Draw(t, "theme")}
		chosen := logo.Choose(logos, o, nil)
		seen := map[string]bool{}
		for _, s := range chosen {
			if where[s.ID] == nil || seen[s.ID] {
				t.Fatalf("%s is not drawable or is listed twice", s.ID)
			}
			seen[s.ID] = true
		}
		if len(seen) != len(where) {
			t.Fatalf("%d sources, want %d", len(seen), len(where))
		}
		if len(chosen) == 0 {
			return
		}
		best := where[chosen[0].ID]
		for _, other := range where {
			if other.Type == string(o.Type) && best.Type != other.Type {
				t.Fatalf("chose a %s although there is a %s", best.Type, other.Type)
			}
			if other.Type == best.Type && o.Theme != logo.Any && chosen[0].Ink != o.Theme && other.Theme != nil && *other.Theme == string(o.Theme) {
				t.Fatalf("chose ink %q although there is %q", chosen[0].Ink, o.Theme)
			}
		}
		for _, f := range best.Formats {
			if where[f.ID] == nil || chosen[0].Format == imaging.SVG {
				continue
			}
			side := 0
			if f.Width != nil && f.Height != nil && min(*f.Width, *f.Height) > 0 {
				side = max(*f.Width, *f.Height)
			}
			switch got := chosen[0].Side; {
			case f.Format == "svg":
				t.Fatal("Choose prefers a raster although the logo has a vector")
			case got < o.Size && side > got, got >= o.Size && side >= o.Size && side < got:
				t.Fatalf("chose side %d for size %d although there is %d", got, o.Size, side)
			}
		}
	})
}
