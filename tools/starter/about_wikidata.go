package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"letterhead/workers/crawl/industry"
)

// The name suggestion index contains extracts of Wikidata, which is CC0, for brands that are on maps.
const (
	nameIndex        = "name-suggestion-index"
	nameIndexVersion = "8.0.20260918"
)

type wikidataItem struct {
	Label            string
	Description      string
	Identities       map[string]string
	OfficialWebsites []string
}

// profileURLs are the beginnings of profiles by the network's name in the package. The package has the
// handles of video channels in two forms; the readable one comes first.
var profileURLs = []struct{ key, prefix string }{
	{"twitter", "https://x.com/"}, {"linkedin", "https://www.linkedin.com/company/"},
	{"instagram", "https://www.instagram.com/"}, {"facebook", "https://www.facebook.com/"},
	{"youtubeHandle", "https://www.youtube.com/@"}, {"youtube", "https://www.youtube.com/channel/"},
	{"tiktok", "https://www.tiktok.com/@"}, {"pinterest", "https://www.pinterest.com/"},
	{"threads", "https://www.threads.net/@"},
}

// handleEndings are words that the handle of a brand adds to its name. A country is not among them, because the
// item of a brand in several countries often has the profile of one.
var handleEndings = append(strings.Fields(
	"app bank brand cars co com company corp global group hq inc international motors official online world"), "")

// profiles returns the profiles whose handles are the name of the item or the domain. The id of a video
// channel shows no name, so it is used only if all handles fit.
func (i wikidataItem) profiles(domain string) []string {
	label, _ := labels(domain)
	country := domain[strings.LastIndexByte(domain, '.')+1:]
	var out []string
	all, channel := true, ""
	for _, p := range profileURLs {
		handle := i.Identities[p.key]
		switch {
		case handle == "":
		case p.key == "youtube":
			channel = p.prefix + handle
		case isHandle(flat(handle), append(handleEndings, country), label, flat(i.Label), plainName(i.Label)):
			out = append(out, p.prefix+handle)
		default:
			all = false
		}
	}
	if channel != "" && all && len(out) > 0 {
		out = append(out, channel)
	}
	return out
}

// isHandle reports whether a handle is one of the names, with or without an ending.
func isHandle(handle string, endings []string, names ...string) bool {
	for _, n := range names {
		if rest, ok := strings.CutPrefix(handle, n); ok && n != "" && slices.Contains(endings, rest) {
			return true
		}
	}
	return false
}

// past matches descriptions of companies that have ended, been renamed or divided, and remarks of editors.
var past = regexp.MustCompile(
	`(?i)\b(former|formerly|defunct|not to be confused|owned|disambiguation)\b|[–-]\s?(19|20)\d\d\)`)

// readNameIndex returns a statement for each registrable domain of each item's official sites.
func readNameIndex(folder string) ([]statement, error) {
	if err := checkVersion(folder, nameIndex, nameIndexVersion); err != nil {
		return nil, err
	}
	var extract struct {
		Wikidata map[string]wikidataItem
	}
	path := filepath.Join(folder, "dist", "wikidata", "wikidata.min.json")
	if err := readJSON(path, &extract); err != nil {
		return nil, err
	}
	if len(extract.Wikidata) == 0 {
		return nil, missing(path, "items")
	}
	classes, err := readMapFeatures(filepath.Join(folder, "dist", "json", "nsi.min.json"))
	if err != nil {
		return nil, err
	}
	var ids []string
	for id := range extract.Wikidata {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	var out []statement
	for _, id := range ids {
		item := extract.Wikidata[id]
		s := statement{
			Source: nameIndex + " " + nameIndexVersion, Method: "wikidata " + id, Confidence: 0.9, Name: item.Label,
		}
		if !past.MatchString(item.Description) && strings.Count(item.Description, " ") >= 2 &&
			sentence(item.Description) != "" {
			s.Description = capital(sentence(item.Description))
		}
		s.Industry = classOfFeatures(classes[id], item.Description)
		seen := map[string]bool{}
		for _, site := range append(item.OfficialWebsites, item.Identities["website"]) {
			if at, ok := placeOf(site); ok && !seen[at.Domain] {
				seen[at.Domain] = true
				s.Domain = at.Domain
				s.Links = item.profiles(at.Domain)
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// readMapFeatures returns the kinds of places on maps that have a brand, by the brand's id.
func readMapFeatures(path string) (map[string][]string, error) {
	var index struct {
		NSI map[string]struct {
			Items []struct{ Tags map[string]string }
		}
	}
	if err := readJSON(path, &index); err != nil {
		return nil, err
	}
	if len(index.NSI) == 0 {
		return nil, missing(path, "features")
	}
	out := map[string][]string{}
	for feature, v := range index.NSI {
		kind, ok := strings.CutPrefix(feature, "brands/")
		if !ok {
			continue
		}
		for _, item := range v.Items {
			if id := item.Tags["brand:wikidata"]; id != "" {
				out[id] = append(out[id], kind)
			}
		}
	}
	return out, nil
}

// featureClasses maps kinds of places to the industry of their brands, if the kind has only one. Shops of
// clothes, electronics and telephones belong to retailers and to manufacturers, and are not listed.
var featureClasses = map[string]string{
	"amenity/bank": "Banking", "amenity/cafe": "Restaurants & Cafés", "amenity/fast_food": "Restaurants & Cafés",
	"amenity/restaurant": "Restaurants & Cafés", "amenity/pharmacy": "Pharmacies",
	"office/consulting": "Management Consulting", "office/insurance": "Insurance",
	"office/telecommunication": "Telecom Carriers", "shop/bookmaker": "Gambling & Casinos",
	"shop/books": "Books & Stationery", "shop/convenience": "Supermarkets & Grocery",
	"shop/department_store": "Department & General Stores", "shop/doityourself": "Home Improvement & Garden",
	"shop/furniture": "Home & Furniture Stores", "shop/pet": "Pet Supplies", "shop/shoes": "Footwear",
	"shop/supermarket": "Supermarkets & Grocery", "shop/telecommunication": "Telecom Carriers",
	"tourism/hotel": "Hotels & Lodging",
}

// carMaker matches descriptions that separate makers of cars from their dealers, which share the kind of place.
var carMaker = regexp.MustCompile(`(?i)\b(auto(mobile|motive)|cars?|vehicle|truck)s?\b.*\b(manufactur\w*|maker|brand|marque|company|division|corporation)\b|\bautomaker\b|\bautomotive marque\b`)

// classOfFeatures returns the class of all kinds of places that have one, or nil if they differ.
func classOfFeatures(kinds []string, description string) *industry.Class {
	name := ""
	for _, k := range kinds {
		n := featureClasses[k]
		if (k == "shop/car" || k == "shop/truck") && carMaker.MatchString(description) {
			n = "Car Manufacturers"
		}
		if n == "" || n == name {
			continue
		}
		if name != "" {
			return nil
		}
		name = n
	}
	return industry.ByName(name)
}
