package readapi

import (
	"context"
	_ "embed" // globe.png
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/web"
	"letterhead/readapi/logo"
)

// compatPath comes before the name of a profile and its paths, on the host of the API.
const compatPath = "/compat/"

// LogoHost is a host that answers requests for logos in the forms of a profile.
type LogoHost struct {
	Host    string // with an optional port
	Profile logo.Profile
	Key     string // the publishable key of requests that send none; "" = they have no key
}

// profileHost is a host of logos, or /compat/{profile} on the host of the API.
type profileHost struct {
	logoHost
	profile logo.Profile
	key     string
}

// hostsOf returns the hosts of logos; LogoHost has the profile brandfetch.
func hostsOf(c Config) (hosts []profileHost) {
	for _, h := range append([]LogoHost{{Host: c.LogoHost, Profile: logo.Brandfetch}}, c.LogoHosts...) {
		if host := parseLogoHost(h.Host, schemeOf(c.BaseURL)); host.name != "" {
			hosts = append(hosts, profileHost{host, h.Profile, h.Key})
		}
	}
	return hosts
}

// validateHosts reports hosts of logos that serve something else, profiles that do not exist, and unusable keys.
func validateHosts(c Config, own string) error {
	var errs []error
	hosts := hostsOf(c)
	for i, h := range hosts {
		switch key, err := apikey.Parse(h.key); {
		case h.is(own):
			errs = append(errs, fmt.Errorf(
				"API: the host of logos %q is the host of BaseURL, which would then serve nothing but logos", h.name))
		case slices.ContainsFunc(hosts[:i], func(o profileHost) bool { return o.name == h.name && (o.port == "" || o.port == h.port) }):
			errs = append(errs, fmt.Errorf("API: the host of logos %q has two profiles; keep one of them", h.name))
		case !slices.Contains(logo.Profiles, h.profile):
			errs = append(errs, fmt.Errorf("API: the profile of the host of logos %q does not exist; profiles are %s", h.name, profileNames))
		case h.key != "" && (err != nil || key.Kind != apikey.Publishable):
			errs = append(errs, fmt.Errorf(
				"API: the key of the host of logos %q is no publishable key, which begins with lh_pk_", h.name))
		}
	}
	return errors.Join(errs...)
}

// profileNames has commas between the names.
var profileNames = strings.ReplaceAll(strings.Trim(fmt.Sprint(logo.Profiles), "[]"), " ", ", ")

// hostOfLogos returns the host of logos that a Host header names, or nil.
func (a *API) hostOfLogos(sent string) *profileHost {
	for i := range a.hosts {
		if a.hosts[i].is(sent) {
			return &a.hosts[i]
		}
	}
	return nil
}

// findProfile sets the profile that a request asks for, by its host or its path, and returns the path after it.
func (x *exchange) findProfile() (path string) {
	path = x.request.URL.EscapedPath()
	if x.profile = x.api.hostOfLogos(x.request.Host); x.profile != nil {
		return strings.TrimPrefix(path, "/")
	}
	path, ok := strings.CutPrefix(path, compatPath)
	name, path, _ := strings.Cut(path, "/")
	if ok {
		x.profile = &profileHost{profile: logo.Profile(name)}
	}
	return path
}

// aside reports whether a request does not wait for a crawl: its miss is one that the clients of the profile expect.
func (x *exchange) aside() bool { return x.profile != nil && x.profile.profile != logo.Brandfetch }

// parseShape parses a request in the form of a profile. public is false for names that can have no brand.
func (x *exchange) parseShape(p logo.Profile, path string) (named logo.Identifier, id brand.Identifier, o logo.Options,
	public bool, err error) {
	first, _, _ := strings.Cut(path, "/")
	named, o, ok := p.ParseShape(path, x.request.URL.RawQuery)
	if !ok || noLogo[strings.ToLower(first)] {
		return named, id, o, false, &Problem{Status: http.StatusNotFound, Code: CodeNotFound, Text: "There is no such path of a " +
			"profile. Profiles are " + profileNames + "; see docs/use-it-with.md for their paths."}
	}
	if named.Kind != logo.Domain {
		return named, id, o, true, nil
	}
	id.Kind = brand.Domain
	id.Domain, err = brand.ParseDomain(named.Name)
	return named, id, o, err == nil && !logo.IsLocal(named.Name), nil
}

// cacheLocal lets caches keep the answer for a name that can have no brand for a day.
var cacheLocal = []string{"public, max-age=86400"}

// drawUnnamed answers for a name that can have no brand. It counts against the address's limit, whatever key was sent.
func (x *exchange) drawUnnamed(ctx context.Context, name string, o logo.Options) error {
	if problem := x.checked(func(ctx context.Context) *Problem { return x.limitAddress(ctx, x.visitor()) }); problem != nil {
		return problem
	}
	found := logoBrand{Brand: logo.Brand{Domain: name, Name: name}, local: true}
	image, err := x.api.Logos.Draw(ctx, found.Brand, o)
	if err != nil {
		return err
	}
	return x.sendImage(image, found, o, logoCaller{})
}

// globe is the neutral image of profiles whose clients show the image of a 404.
//
//go:embed globe.png
var globe []byte

// firstNamed returns the domain of the best result of a search for a name, or the name if that result does not begin with
// it.
func (x *exchange) firstNamed(ctx context.Context, named logo.Identifier) (logo.Identifier, error) {
	if checkSearchText("The name", named.Name) != nil {
		return named, nil
	}
	hits, err := x.api.Search.Search(ctx, named.Name, 1)
	if err != nil {
		return named, err
	}
	begins := func(text string) bool {
		return strings.HasPrefix(strings.ToLower(text), strings.ToLower(named.Name))
	}
	if len(hits) > 0 && (begins(hits[0].Name) || begins(hits[0].Domain)) {
		named = logo.Identifier{Kind: logo.Domain, Name: hits[0].Domain}
	}
	return named, nil
}

// isLogoDevSearch reports whether a request is a search in the form of LogoDev.
func (a *API) isLogoDevSearch(r *http.Request) bool {
	if host := a.hostOfLogos(r.Host); host != nil {
		return host.profile == logo.LogoDev && r.URL.EscapedPath() == "/search"
	}
	return r.URL.EscapedPath() == compatPath+string(logo.LogoDev)+"/search"
}

// serveLogoDevSearch answers GET and HEAD of a search in the form of LogoDev, which counts as one of /v1/search.
func (x *exchange) serveLogoDevSearch() error {
	q, limit, problem := parseSearch(x.request.URL.RawQuery)
	if problem != nil {
		return problem
	}
	results, err := x.searchBrands(q, limit)
	if err != nil {
		return err
	}
	found := make([]logoDevResult, 0, len(results))
	for _, r := range results {
		found = append(found, logoDevResult{r.Name, r.Domain})
	}
	return x.sendResults(found)
}

type logoDevResult struct {
	Name   string `json:"name"`
	Domain string `json:"domain"`
}

// missOf returns the answer that replaces a missing logo, and reports whether the fallback has one of its own.
func missOf(f logo.Fallback) (logo.Image, bool) {
	switch f {
	case logo.NoImage:
		return logo.Image{ContentType: web.Text[0], ETag: `"none"`, Body: []byte("There is no logo of this name.\n")}, true
	case logo.Globe:
		return logo.Image{ContentType: logo.ContentTypePNG, ETag: `"globe"`, Body: globe}, true
	}
	return logo.Image{}, false
}

// logoLimit returns the logos in a minute of an address without a key; 0 = no limit. Only profiles have other limits.
func (x *exchange) logoLimit() int64 {
	switch {
	case x.profile == nil:
		return plan.KeylessLogosPerMinute
	case x.unlimited():
		return 0
	}
	return x.api.LogosPerAddress
}

// unlimited reports whether a request comes from a network without limits.
func (x *exchange) unlimited() bool {
	return isTrusted(wholeAddress(x.request, x.api.TrustedProxies), x.api.UnlimitedLogos)
}

// logoHost is a host name that serves logos at its root. The zero value is none.
type logoHost struct {
	name string // lower case, without a trailing dot
	port string // "" = any
}

// usualPorts are the ports that clients omit from Host.
var usualPorts = map[string]string{"http": "80", "https": "443"}

// parseLogoHost parses the setting; scheme is that of the published URLs.
func parseLogoHost(setting, scheme string) logoHost {
	name, port := splitHost(strings.ToLower(setting))
	if port == usualPorts[scheme] {
		port = ""
	}
	return logoHost{name: name, port: port}
}

// splitHost splits a Host header, with or without a port and a trailing dot.
func splitHost(sent string) (name, port string) {
	name = sent
	if i := strings.LastIndexByte(sent, ':'); i > strings.LastIndexByte(sent, ']') {
		name, port = sent[:i], sent[i+1:]
	}
	return strings.TrimSuffix(name, "."), port
}

// is reports whether a request's Host is this one. A port in it matters only if the setting has one,
// since proxies may or may not send it.
func (h logoHost) is(sent string) bool {
	if h.name == "" {
		return false
	}
	name, port := splitHost(sent)
	return strings.EqualFold(name, h.name) && (h.port == "" || h.port == port)
}

// logoURLs returns the prefix of a logo's URL before the domain.
func logoURLs(baseURL, host string) string {
	if host == "" {
		return baseURL + logoPath
	}
	return schemeOf(baseURL) + "://" + host + "/"
}

func schemeOf(baseURL string) string {
	scheme, _, _ := strings.Cut(baseURL, ":")
	return strings.ToLower(scheme)
}

// iconURL returns the URL of a domain's icon.
func (a *API) iconURL(domain string) string { return a.logoURLs + url.PathEscape(domain) }

// noLogo are the first path segments at the root of a logo host that clients request from every host
// and that would be parsed as domains.
var noLogo = map[string]bool{"": true, "favicon.ico": true, "robots.txt": true, "ads.txt": true, "sitemap.xml": true,
	".well-known": true}

// logoAddress returns the part of the path that describes a logo, still percent-encoded, and false if there is none.
// path is the one on a host of logos, where /logo/acme.com works as on the other host, since "logo" is not a domain; ""
// on that host. published reports whether the address may have any published form, unlike below /logo.
func (x *exchange) logoAddress(path string, hosted bool) (address string, published, ok bool) {
	if !hosted {
		return strings.TrimPrefix(x.request.URL.EscapedPath(), logoPath), false, true
	}
	address, strict := strings.CutPrefix(path, strings.TrimPrefix(logoPath, "/"))
	first, _, _ := strings.Cut(address, "/")
	return address, !strict, !noLogo[strings.ToLower(first)]
}
