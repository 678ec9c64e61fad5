package page_test

import "testing"

// The expected files are those that Chromium requests at the highest density.
func TestImages_Srcset_IsParsedAsInTheStandard(t *testing.T) {
	for srcset, want := range map[string]string{
		"/a.png 1x, /b.png 2x":                            "/b.png",
		"/a.png 1x,/b.png 2x":                             "/b.png",
		"/c/w_120,h_30/a.png 1x,/c/w_480,h_120/a.png 2x":  "/c/w_480,h_120/a.png",
		"/c/w_120,h_30/a.png, /c/w_480,h_120/a.png 2x":    "/c/w_480,h_120/a.png",
		"\n\t/a.png\n\t1x\n\t,\n\t/b.png\t1.5x\n":         "/b.png",
		",,, /a.png 2x ,, ":                               "/a.png",
		"/a.png 120w, /b.png 480w, /c.png 960w":           "/c.png",
		"/a.png 800w, /b.png 1600w, /c.png 6000w":         "/b.png", // no wider file is of use
		"/a.png 2x, /b.png 3y, /c.png 1x 2x, /d.png -1x":  "/a.png",
		"/a.png 2x, /b.png 9w 9h, /c.png 0w, /d.png 9h":   "/b.png",
		"/a.png (1,2) 9x, /b.png 2x":                      "/b.png",
		"/a.png 1e1x, /b.png 9x":                          "/a.png",
		"/a.png 2x, /b.png NaNx, /c.png 0x9p1x, /d.png +": "/a.png",
		"/a.png 1x 2w":                                    "",
		"/a.png 1x":                                       "",
	} {
		p := parse(t, `<img src="/own.png" srcset="`+srcset+`">`, "text/html")
		got := ""
		if files := p.Images[0].Larger; len(files) > 0 {
			got = files[0].Path
		}
		if got != want {
			t.Errorf("%q: %q, want %q", srcset, got, want)
		}
	}
}

func TestImages_Picture_IsReadAsOnAWideScreen(t *testing.T) {
	const img = `<img src="/own.png">`
	for picture, want := range map[string]string{
		`<source media="(max-width: 600px)" srcset="/small.png 2x"><source srcset="/wide.png">` + img:  "/wide.png",
		`<source media="(min-width: 600px)" srcset="/wide.png 1x,/wider.png 2x">` + img:                "/wider.png",
		`<source type="image/svg+xml" srcset="/own.svg">` + img:                                        "/own.svg",
		`<source type="image/jxl" srcset="/own.jxl"><source type="image/webp" srcset="/a.webp">` + img: "/a.webp",
		`<source type="video/mp4" srcset="/own.mp4">` + img:                                            "",
		`<source media="(prefers-color-scheme: dark)" srcset="/white.png">` + img:                      "",
		`<source type="image/webp" srcset="/s.webp"><img src="/s.png" srcset="/s.png, /l.png 2x">`:     "/l.png",
		`<source media="print" srcset="/print.png">` + img:                                             "",
		`<img src="/own.png" data-src="/real.png" srcset="/blurred.png 20w">`:                          "",
		`<img src="/own.png" srcset="/blank.gif 2x">`:                                                  "",
	} {
		p := parse(t, `<picture>`+picture+`</picture>`, "text/html")
		got := ""
		if files := p.Images[0].Larger; len(files) > 0 {
			got = files[0].Path
		}
		if got != want {
			t.Errorf("%s: %q, want %q", picture, got, want)
		}
	}
}
