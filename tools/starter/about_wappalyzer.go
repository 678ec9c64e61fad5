package main

import (
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"letterhead/workers/crawl/industry"
)

// Wappalyzer's list of web technologies describes each in neutral words. This is the last release in npm
// under the MIT License; later ones are under the GPL.
const (
	wappalyzer        = "wappalyzer"
	wappalyzerVersion = "6.10.47"
)

// mistaken are entries that a review excluded: about an earlier owner or product of the name, about another
// framework, or in a wrong category.
var mistaken = map[string]bool{"CreateJS": true, "GitBook": true, "UIKit": true, "X.ai": true}

// readWappalyzer returns a statement for each technology with a site.
func readWappalyzer(folder string) ([]statement, error) {
	if err := checkVersion(folder, wappalyzer, wappalyzerVersion); err != nil {
		return nil, err
	}
	var categories map[string]struct{ Name string }
	if err := readJSON(filepath.Join(folder, "categories.json"), &categories); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "technologies", "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, missing(folder, "technologies")
	}
	var out []statement
	for _, file := range files {
		var technologies map[string]struct {
			Cats                 []int
			Description, Website string
		}
		if err := readJSON(file, &technologies); err != nil {
			return nil, err
		}
		for name, t := range technologies {
			at, ok := placeOf(t.Website)
			if !ok || mistaken[name] {
				continue
			}
			s := statement{
				Source: wappalyzer + " " + wappalyzerVersion, Method: "technology", Confidence: 0.8, Domain: at.Domain,
				Name: name,
			}
			if !past.MatchString(t.Description) && !strings.Contains(t.Description, "widget") {
				s.Description = sentence(t.Description)
			}
			var classes []string
			for _, c := range t.Cats {
				classes = append(classes, categoryClasses[categories[strconv.Itoa(c)].Name])
			}
			s.Industry = soleClass(classes)
			out = append(out, s)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Domain+" "+out[i].Name < out[j].Domain+" "+out[j].Name
	})
	return out, nil
}

// soleClass returns the class if all names are the same and known.
func soleClass(names []string) *industry.Class {
	if len(names) == 0 {
		return nil
	}
	for _, n := range names {
		if n != names[0] {
			return nil
		}
	}
	return industry.ByName(names[0])
}

// categoryClasses maps Wappalyzer's categories to industries. Categories of parts of pages, such as widgets
// and font scripts, do not determine an industry and are not listed.
var categoryClasses = func() map[string]string {
	out := map[string]string{}
	for class, categories := range map[string]string{
		"Software":                     "CMS; Message boards; Wikis; LMS; CRM; DMS; Live chat; Page builders; Surveys; Digital asset management; Webmail",
		"Developer Tools":              "JavaScript frameworks; JavaScript libraries; JavaScript graphics; Mobile frameworks; Web frameworks; Web servers; Programming languages; Static site generator; UI frameworks; Databases; Database managers; Development; CI; Containers; Feature management; Rich text editors",
		"Cloud & Hosting":              "PaaS; IaaS; Hosting; CDN",
		"Cybersecurity":                "Security; SSL/TLS certificate authorities; Authentication",
		"Data & Analytics":             "Analytics; RUM; Customer data platform; A/B Testing",
		"Marketing Technology & SEO":   "Marketing automation; SEO; Advertising; Retargeting; Personalisation; Referral marketing",
		"Payments":                     "Payment processors; Buy now pay later",
		"E-commerce Services":          "Ecommerce; Cart abandonment; Returns; Fulfilment; Cross border ecommerce",
		"Accounting & Tax":             "Accounting",
		"Human Resources & Recruiting": "Recruitment & staffing",
	} {
		for c := range strings.SplitSeq(categories, "; ") {
			out[c] = class
		}
	}
	return out
}()
