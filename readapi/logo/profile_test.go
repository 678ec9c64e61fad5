package logo_test

import (
	"testing"

	"letterhead/readapi/logo"
)

func FuzzParseShape(f *testing.F) {
	for _, path := range []string{"acme.com", "s2/favicons", "ip3/acme.com.ico", "acme.com/icon.png", "icon", "ticker/A", "%zz", "//"} {
		f.Add(path, "url=https://a@[::1]:80/x&size=1..2..3&sz=9&domain=%ff&format=SVG&greyscale=1")
	}
	f.Fuzz(func(t *testing.T, path, query string) {
		for _, p := range logo.Profiles {
			id, o, ok := p.ParseShape(path, query)
			if again, same, _ := p.ParseShape(path, query); again != id || same != o {
				t.Errorf("%s: another result for the same request", p)
			}
			if ok && (o.Size < logo.MinSize || o.Size > logo.MaxSize || o.Format == "" || o.Fallback == "") {
				t.Errorf("%s %q %q: %+v", p, path, query, o)
			}
			_ = logo.IsLocal(id.Name)
		}
	})
}
