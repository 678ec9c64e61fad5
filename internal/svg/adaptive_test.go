package svg_test

import (
	"testing"

	"letterhead/internal/svg"
)

func TestAdaptive_TwoDrawings_AreOneForBothSchemes(t *testing.T) {
	t.Parallel()
	const (
		style = `<style>.d{display:none}@media(prefers-color-scheme:dark){.l{display:none}.d{display:inline}}</style>`
		head  = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 40 20">`
		light = `<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40" viewBox="0 0 40 20"><linearGradient id="a"><stop offset="0" stop-color="red"/><stop offset="1"/></linearGradient><path fill="url(#a)" d="M0 0h40v20H0z"/></svg>`
		dark  = head + `<defs><path id="a" d="M0 0h40v20H0z"/></defs><use xlink:href="#a" fill="white"/></svg>`
		want  = `<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40" viewBox="0 0 80 40">` + style +
			`<g class="l"><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20"><linearGradient id="l-a"><stop offset="0" stop-color="red"/><stop offset="1"/></linearGradient><path fill="url(#l-a)" d="M0 0h40v20H0z"/></svg></g>` +
			`<g class="d">` + head + `<defs><path d="M0 0h40v20H0z" id="d-a"/></defs><use fill="white" xlink:href="#d-a"/></svg></g></svg>`
		twice = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" viewBox="0 0 40 20">` + style + `<g class="l">` + head + `<defs><path d="M0 0h40v20H0z" id="l-a"/></defs><use fill="white" xlink:href="#l-a"/></svg></g>` +
			`<g class="d">` + head + `<defs><path d="M0 0h40v20H0z" id="d-a"/></defs><use fill="white" xlink:href="#d-a"/></svg></g></svg>`
		sizeless = `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`
	)
	for _, c := range []struct{ light, dark, want string }{
		{light, dark, want}, {dark, dark, twice}, {light, sizeless, light}, {sizeless, dark, sizeless},
	} {
		if got, err := svg.Adaptive([]byte(c.light), []byte(c.dark)); err != nil || string(got) != c.want {
			t.Errorf("%s\nwant %s: %v", got, c.want, err)
		}
	}
	if _, err := svg.Adaptive([]byte(light), []byte("<html/>")); err == nil {
		t.Error("HTML was accepted")
	}
}
