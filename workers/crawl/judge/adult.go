package judge

import (
	"net/http"
	"strings"

	"letterhead/eventschemas"
)

// rtaLabel is the label of rtalabel.org, which adult sites put on themselves.
const rtaLabel = "rta-5042-1996-1400-1577-rta"

// adultEndings are top-level domains that are for adult content only.
var adultEndings = []string{"xxx", "porn", "adult", "sex", "sexy"}

// Adult says whether the site certainly is adult content: it says so itself. method names the sign.
func Adult(in Input) (method string, yes bool) {
	ending := in.Site.Domain[strings.LastIndexByte(in.Site.Domain, '.')+1:]
	for _, e := range adultEndings {
		if ending == e {
			return "domain ending", true
		}
	}
	for _, m := range in.Page.Metas {
		if m.Key == "rating" && ratedAdult(m.Content) {
			return "rating meta", true
		}
	}
	if in.Header != nil {
		for _, v := range in.Header.Values(http.CanonicalHeaderKey("Rating")) {
			if ratedAdult(v) {
				return "rating header", true
			}
		}
	}
	return "", false
}

func ratedAdult(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "adult", "mature", "restricted", rtaLabel:
		return true
	}
	return false
}

// Restricted is the record of a site that carries no data on purpose.
func Restricted() eventschemas.Record {
	return eventschemas.Record{
		Links: []eventschemas.Link{}, Logos: []eventschemas.Logo{}, Colors: []eventschemas.Color{},
		Fonts: []eventschemas.Font{}, Images: []eventschemas.Image{},
		NSFW:        true,
		Restriction: &eventschemas.Restriction{Code: "nsfw", Message: "The site is adult content, so no brand data is kept for it."},
	}
}
