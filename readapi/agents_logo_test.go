package readapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"letterhead/domain/plan"
	"letterhead/internal/testmust"
)

func TestMCPLogoURL_Arguments_BecomeTheQuery(t *testing.T) {
	t.Parallel()
	_, c := startWith(t, plan.Free, 0)
	for arguments, want := range map[string]string{
		`{"domain":"acme.com"}`:                                           "/logo/acme.com",
		`{"domain":"https://shop.acme.co.uk/x"}`:                          "/logo/acme.co.uk",
		`{"domain":"jane@acme.com"}`:                                      "/logo/acme.com",
		`{"domain":"bücher.de","theme":"dark"}`:                           "/logo/xn--bcher-kva.de?theme=dark",
		`{"domain":"acme.com","background":"dark","fallback":"404"}`:      "/logo/acme.com?background=dark&fallback=404",
		`{"domain":"acme.com","background":"dark","theme":"light"}`:       "/logo/acme.com?theme=light",
		`{"domain":"acme.com","background":"0B5fff","plate":"never"}`:     "/logo/acme.com?background=0B5fff&plate=never",
		`{"domain":"acme.com","size":1}`:                                  "/logo/acme.com?size=16",
		`{"domain":"acme.com","size":1e300}`:                              "/logo/acme.com?size=1024",
		`{"domain":"acme.com","size":256.0,"format":"svg","type":"logo"}`: "/logo/acme.com?format=svg&size=256&type=logo",
	} {
		got := decodeExactly[struct {
			URL    string `json:"url"`
			Domain string `json:"domain"`
		}](t, c.agent(toolCall(1, "get_logo_url", arguments)).one(t, 200).found(t))
		if got.URL != baseURL+want {
			t.Errorf("%s: %s", arguments, got.URL)
		}
	}
}

// TestMCPLogoURL_EveryValue_LogoEndpointAccepts covers every value that the tool declares, on either host.
func TestMCPLogoURL_EveryValue_LogoEndpointAccepts(t *testing.T) {
	t.Parallel()
	for _, site := range []struct {
		host  string
		setup func(*setup)
	}{{"brands.example.com", func(*setup) {}}, {logoHostName, onLogoHost}} {
		s := start(t, site.setup)
		s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
		c := s.account(plan.Growth, 50)
		for domain, sent := range map[string]string{"acme.com": "https://www.Acme.com/about", "xn--bcher-kva.de": "bücher.de"} {
			for _, argument := range logoToolArguments(t, c) {
				for _, value := range argument.Enum {
					arguments, err := json.Marshal(map[string]any{"domain": sent, argument.name: value})
					s.must(err)
					built := decodeExactly[struct {
						URL    string `json:"url"`
						Domain string `json:"domain"`
					}](t, c.agent(toolCall(1, "get_logo_url", string(arguments))).one(t, 200).found(t))
					u, err := url.Parse(built.URL)
					s.must(err)
					if u.Host != site.host || built.Domain != domain || u.Query().Get(argument.name) != argument.inURL(value) {
						t.Errorf("%s: %+v", arguments, built)
					}
					status, format := http.StatusOK, "image/png"
					if argument.name == "fallback" && value == "404" && domain != "acme.com" {
						status = http.StatusNotFound
					}
					if argument.name == "format" && (value != "svg" || domain != "acme.com") { // this brand has no vector
						format = strings.Replace(fmt.Sprint("image/", value), "svg", "svg+xml", 1)
					}
					a := s.sendTo(u.Host, http.MethodGet, u.RequestURI(), nil)
					if a.status != status || a.header.Get("Content-Type") != format {
						t.Errorf("%s: status %d, %s, body %.200q; want %d and %v", built.URL, a.status, a.header.Get("Content-Type"), a.body, status, format)
					}
				}
			}
		}
	}
}

// logoToolArgument is an argument of get_logo_url, with the values to try.
type logoToolArgument struct {
	name string
	Enum []any
}

// inURL returns a value as written in the tool's URL.
func (a logoToolArgument) inURL(value any) string {
	switch value {
	case 1:
		return "16"
	case 5000:
		return "1024"
	}
	return fmt.Sprint(value)
}

// logoToolArguments reads the arguments from the tool's own schema.
func logoToolArguments(t *testing.T, c *customer) (arguments []logoToolArgument) {
	t.Helper()
	var list struct {
		Tools []struct {
			Name        string
			InputSchema struct{ Properties map[string]logoToolArgument }
		}
	}
	testmust.Succeed(t, json.Unmarshal(c.agent(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).one(t, 200).Result, &list))
	for _, tool := range list.Tools {
		if tool.Name != "get_logo_url" {
			continue
		}
		for name, argument := range tool.InputSchema.Properties {
			argument.name = name
			if name == "size" {
				argument.Enum = []any{1, 64, 5000}
			}
			if name == "background" {
				argument.Enum = []any{"light", "dark", "0b5fff", "FFFFFF"}
			}
			if name != "domain" && len(argument.Enum) == 0 {
				t.Errorf("the test has no value for %s", name)
			}
			arguments = append(arguments, argument)
		}
	}
	if len(arguments) < 7 {
		t.Fatalf("arguments %v", arguments)
	}
	return arguments
}
