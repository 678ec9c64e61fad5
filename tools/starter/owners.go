package main

import (
	"sort"
	"strings"

	"letterhead/internal/searchindex"
)

// claim is one product's relation to one domain.
type claim struct {
	Product *product
	Domain  string
	Fit     fit
	Front   bool // a link of the product is the domain's front page
	Link    link
}

// owned is a domain with its products: one, or the same brand from both sources.
type owned struct {
	Domain string
	Claims []claim // the best first
	Rule   string
}

// claimsOf returns the domains in a product's links, each once, the best first.
// A link to a shared host counts only if the product is that host's own brand.
func claimsOf(p *product) []claim {
	var out []claim
	at := map[string]int{}
	for _, l := range p.Links {
		where, ok := placeOf(l.URL)
		if !ok || isKit(p.Name, where.Domain) {
			continue
		}
		f := productFit(p, where.Domain)
		if where.Shared {
			if !ownsHost(p, where.Domain, f) {
				continue
			}
			f = max(f, sameAlias)
		}
		if i, seen := at[where.Domain]; seen {
			out[i].Front = out[i].Front || where.Front
			continue
		}
		at[where.Domain] = len(out)
		out = append(out, claim{Product: p, Domain: where.Domain, Fit: f, Front: where.Front, Link: l})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Fit > out[j].Fit })
	return out
}

// productFit compares all names of a product with a domain.
func productFit(p *product, domain string) fit {
	f := fitOf(p.Name, domain)
	for _, a := range p.Aliases {
		f = max(f, min(fitOf(a, domain), sameAlias))
	}
	return f
}

// sameBrand reports whether two products have the same name.
func sameBrand(a, b *product) bool {
	for _, x := range allNames(a) {
		for _, y := range allNames(b) {
			if x == y {
				return true
			}
		}
	}
	return false
}

// flat folds a name to one word.
func flat(name string) string { return strings.ReplaceAll(searchindex.Fold(name), " ", "") }

func allNames(p *product) []string {
	var out []string
	for _, n := range append([]string{p.Name}, p.Aliases...) {
		if n = flat(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// findOwners decides the owner of each domain. All claims compete, including a
// product's second best; but only its best one can win a domain.
func findOwners(products []product) []owned {
	byDomain := map[string][]claim{}
	best := map[*product]string{}
	for i := range products {
		for n, c := range claimsOf(&products[i]) {
			byDomain[c.Domain] = append(byDomain[c.Domain], c)
			if n == 0 {
				best[c.Product] = c.Domain
			}
		}
	}
	var out []owned
	for domain, claims := range byDomain {
		o, ok := ownerOf(domain, claims)
		if !ok {
			continue
		}
		kept := o.Claims[:0]
		for _, c := range o.Claims {
			if best[c.Product] == domain && !c.Product.Licensed {
				kept = append(kept, c)
			}
		}
		if o.Claims = kept; len(kept) > 0 {
			out = append(out, o)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Domain < out[j].Domain })
	return out
}

// abbreviated reports whether the alias that matches a domain and the product's
// name are a long and a short form of one name.
func abbreviated(c claim) bool {
	label, _ := labels(c.Domain)
	if fitOf(c.Product.Name, c.Domain) > unlike || contraction(label, flat(c.Product.Name)) {
		return true
	}
	for _, a := range c.Product.Aliases {
		if initials(a) == flat(c.Product.Name) {
			return true
		}
	}
	return false
}

// ownerOf returns the owner of one domain, if any.
func ownerOf(domain string, claims []claim) (owned, bool) {
	sort.SliceStable(claims, func(i, j int) bool {
		if claims[i].Fit != claims[j].Fit {
			return claims[i].Fit > claims[j].Fit
		}
		return claims[i].Product.Name < claims[j].Product.Name
	})
	best := claims[0]
	o := owned{Domain: domain}
	others, front := 0, false
	for _, c := range claims {
		switch {
		case sameBrand(best.Product, c.Product):
			o.Claims = append(o.Claims, c)
			front = front || c.Front
		case c.Fit == best.Fit:
			return owned{}, false // two names with an equally good match
		default:
			others++
		}
	}
	switch {
	case best.Fit == sameAlias && !front && !abbreviated(best):
		return owned{}, false // the product's other names include a maker or sister
	case best.Fit >= decorated:
		o.Rule = best.Fit.String()
	case others > 0:
		return owned{}, false
	case best.Fit == initialed:
		o.Rule = "alone, initials"
	case front:
		o.Rule = "alone, front page"
	default:
		return owned{}, false
	}
	return o, true
}

// joinHomeless adds a product without a domain to the brand of the other source with the same name, if one source
// declares a color that the other one draws: many brands share a name, few share a name and a color.
func (e *renderer) joinHomeless(products []product, brands []owned) {
	housed := map[*product]bool{}
	byName := map[string][]int{}
	for i, o := range brands {
		for _, c := range o.Claims {
			housed[c.Product] = true
		}
		if o.Claims[0].Fit >= decorated {
			n := flat(o.Claims[0].Product.Name)
			byName[n] = append(byName[n], i)
		}
	}
	for i := range products {
		p := &products[i]
		at := byName[flat(p.Name)]
		if housed[p] || p.Licensed || len(at) != 1 {
			continue
		}
		o := &brands[at[0]]
		if len(o.Claims) != 1 || o.Claims[0].Product.Source == p.Source || !e.sameColor(p, o.Claims[0].Product) {
			continue
		}
		o.Claims = append(o.Claims, claim{
			Product: p, Domain: o.Domain, Fit: o.Claims[0].Fit, Link: link{Method: "same name and color"},
		})
	}
}

// sameColor reports whether one of two products declares a color that the other one draws.
func (e *renderer) sameColor(a, b *product) bool {
	if a.Mark == nil {
		a, b = b, a
	}
	if a.Mark == nil {
		return false
	}
	hex, _ := parseColor("#" + a.Mark.Hex)
	for _, d := range e.drawingsOf(b, func(string, error) {}) {
		if paletteHas(hex, d.palette) {
			return true
		}
	}
	return false
}
