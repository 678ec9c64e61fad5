package manifest_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/manifest"
)

var at, _ = url.Parse("https://acme.com/app/site.webmanifest")

func TestParse_Manifest_IsRead(t *testing.T) {
	m, err := manifest.Parse([]byte("\xef\xbb\xbf"+`{"name":"Acme Instruments","short_name":"Acme","description":"Careful instruments","theme_color":"#0b5fff","background_color":"#fff",
		"icons":[{"src":"icon-192.png","sizes":"192x192","type":"image/png"},{"src":"/m.png","sizes":"512x512","purpose":"maskable"},
		{"src":"/any.svg","sizes":"any","purpose":"any maskable"},{"src":"/mono.svg","purpose":"monochrome"},{"src":"javascript:x"},{"sizes":"1x1"},5,null]}`), at)
	testmust.Succeed(t, err)
	if m.Name != "Acme Instruments" || m.ShortName != "Acme" || m.Description != "Careful instruments" || m.ThemeColor != "#0b5fff" || m.BackgroundColor != "#fff" {
		t.Errorf("manifest is %+v", m)
	}
	var got []string
	for _, i := range m.Icons {
		got = append(got, fmt.Sprint(i.URL, " ", i.Sizes, " ", i.Any, " ", i.Maskable))
	}
	want := []string{"https://acme.com/app/icon-192.png [{192 192}] false false", "https://acme.com/m.png [{512 512}] false true", "https://acme.com/any.svg [] true false"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("icons are\n%v\nwant\n%v", got, want)
	}
}

func TestParse_BadField_KeepsOthers(t *testing.T) {
	m, err := manifest.Parse([]byte(`{"name":{"en":"x"},"short_name":"Acme","icons":"none","theme_color":5}`), at)
	if err != nil || m.ShortName != "Acme" || m.Name != "" || len(m.Icons) != 0 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestParse_NotManifest_Fails(t *testing.T) {
	for name, text := range map[string]string{
		"web page":  "<!doctype html><title>404</title>",
		"list":      "[]",
		"empty":     "",
		"deep":      strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000),
		"too large": `{"name":"` + strings.Repeat("x", manifest.MaxBytes) + `"}`,
	} {
		if _, err := manifest.Parse([]byte(text), at); !errors.Is(err, manifest.ErrUnreadable) {
			t.Errorf("%s: %v, want ErrUnreadable", name, err)
		}
	}
	m, err := manifest.Parse([]byte(`{"icons":[`+strings.TrimSuffix(strings.Repeat(`{"src":"/a.png"},`, 1000), ",")+`]}`), at)
	if err != nil || len(m.Icons) != manifest.MaxIcons {
		t.Errorf("%d icons of 1000, %v", len(m.Icons), err)
	}
}

func TestParseBrowserConfig_Tiles_AreRead(t *testing.T) {
	m, err := manifest.ParseBrowserConfig([]byte(`<?xml version="1.0" encoding="utf-8"?><browserconfig><msapplication><tile>
		<square150x150logo src="/t150.png"/><square310x310logo src="t310.png"/><wide310x150logo src="/wide.png"/><TileColor> #da532c </TileColor></tile></msapplication></browserconfig>`), at)
	testmust.Succeed(t, err)
	if m.TileColor != "#da532c" || len(m.Icons) != 2 || m.Icons[0].URL.String() != "https://acme.com/app/t310.png" || m.Icons[0].Sizes[0].Width != 310 {
		t.Errorf("config is %+v", m)
	}
	for name, text := range map[string]string{
		"not XML":      "{\"a\":1}<",
		"entity bomb":  `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>`,
		"too large":    strings.Repeat(" ", manifest.MaxBytes+1),
		"bad encoding": `<?xml version="1.0" encoding="klingon"?><x/>`,
	} {
		if m, err := manifest.ParseBrowserConfig([]byte(text), at); !errors.Is(err, manifest.ErrUnreadable) && (m == nil || len(m.Icons) > 0 || m.TileColor != "") {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"name":"A","icons":[{"src":"a","sizes":"1x1 any","purpose":"maskable"}]}`))
	f.Add([]byte(`{"icons":[[],{},{"src":5}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := manifest.Parse(text, at)
		if err != nil {
			return
		}
		for _, i := range m.Icons {
			if i.URL == nil || i.URL.Scheme != "http" && i.URL.Scheme != "https" {
				t.Errorf("icon at %v", i.URL)
			}
		}
	})
}

func FuzzParseBrowserConfig(f *testing.F) {
	f.Add([]byte(`<browserconfig><msapplication><tile><square70x70logo src="a"/><TileColor>x</TileColor>`))
	f.Add([]byte(`<a src="b"><![CDATA[x]]></a>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := manifest.ParseBrowserConfig(text, at)
		if err == nil && len(m.Icons) > manifest.MaxIcons {
			t.Errorf("%d icons", len(m.Icons))
		}
	})
}
