package openapi_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/readapi/openapi"
	"letterhead/readapi/openapi/openapitest"
)

const baseURL = "https://brands.example.com"

func read(t *testing.T) *openapi.Document {
	t.Helper()
	d := testmust.Get(openapi.Read(baseURL))(t)
	return d
}

func TestJSON_InsertsBaseURL(t *testing.T) {
	document := testmust.Get(openapi.JSON(baseURL))(t)
	var served struct {
		OpenAPI string `json:"openapi"`
		Info    struct {
			Version string `json:"version"`
		} `json:"info"`
		Servers []struct {
			URL string `json:"url"`
		} `json:"servers"`
	}
	testmust.Succeed(t, json.Unmarshal(document, &served))
	if served.OpenAPI != "3.1.0" || served.Info.Version != "1.0.0" || len(served.Servers) != 1 || served.Servers[0].URL != baseURL {
		t.Errorf("got %+v", served)
	}
	if strings.Contains(string(document), "127.0.0.1") || !strings.Contains(string(document), `"docs":"`+baseURL+`/docs/errors#timeout"`) {
		t.Error("the base URL of the source was not replaced")
	}
	again, err := openapi.JSON(baseURL)
	if err != nil || string(again) != string(document) {
		t.Errorf("a second call returns another document: %v", err)
	}
}

// specPaths are the paths of the service specification in this release, with their methods and specified statuses.
var specPaths = map[string][]int{
	"GET /v1/brands/{identifier}":    {200, 400, 401, 402, 403, 404, 422, 429, 500, 502, 503, 504},
	"GET /v2/brands/{identifier}":    {200, 400, 401, 402, 403, 404, 422, 429, 500, 502, 503, 504},
	"GET /v2/brands/id/{id}":         {200, 400, 401, 402, 403, 404, 422, 429, 500, 502, 503, 504},
	"GET /v2/brands/domain/{domain}": {200, 400, 401, 402, 403, 404, 422, 429, 500, 502, 503, 504},
	"POST /v1/brands/batch":          {200, 400, 401, 402, 403, 429, 503},
	"GET /v1/search":                 {200, 400, 401, 403, 429, 500, 503},
	"GET /v2/search/{name}":          {200, 400, 401, 403, 429, 500, 503},
	"GET /v1/me":                     {200, 401, 403, 429, 503},
	"GET /v1/openapi.json":           {200},
	"GET /logo/{domain}":             {200, 304, 400, 404, 429, 500, 503},
	"GET /logo/{domain}/{type}":      {200, 304, 400, 404, 429, 500, 503},
	"GET /cdn/{file}":                {200, 404, 503},
	"POST /mcp":                      {200, 202, 400, 401, 403, 413, 503},
}

func TestDocument_MatchesSpecification(t *testing.T) {
	d := read(t)
	for name, statuses := range specPaths {
		method, path, _ := strings.Cut(name, " ")
		o := openapitest.Operation(d, method, path)
		if o == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		for _, status := range append(statuses, http.StatusMethodNotAllowed) {
			if openapitest.Response(o, status) == nil {
				t.Errorf("%s: %d is missing", name, status)
			}
		}
	}
}

// Each response body except files, each header and each parameter has an example.
func TestDocument_EverythingHasExample(t *testing.T) {
	for _, o := range read(t).Operations {
		for _, p := range o.Parameters {
			if p.Example == nil || p.Description == "" || p.Schema == nil {
				t.Errorf("%s: %s has no example, description or schema", o.ID, p.Name)
			}
		}
		for _, r := range o.Responses {
			for _, h := range r.Headers {
				if h.Example == nil || h.Description == "" || h.Schema == nil {
					t.Errorf("%s, status %d: header %s has no example, description or schema", o.ID, r.Status, h.Name)
				}
			}
			for _, c := range r.Contents {
				if len(c.Examples) == 0 && !strings.HasPrefix(c.Type, "image/") {
					t.Errorf("%s, status %d: %s has no example", o.ID, r.Status, c.Type)
				}
				for _, code := range r.Codes() {
					if !slices.ContainsFunc(c.Examples, func(e openapi.Example) bool { return strings.Contains(e.Text, `"code": "`+code+`"`) }) {
						t.Errorf("%s, status %d: no example of %s", o.ID, r.Status, code)
					}
				}
			}
			if o.Method != http.MethodHead && r.Status >= 400 && r.Status != http.StatusMethodNotAllowed && len(r.Codes()) == 0 && len(o.Keys) > 0 && o.Path != "/mcp" {
				t.Errorf("%s, status %d: no codes", o.ID, r.Status)
			}
		}
	}
}

func TestPathOf_EscapedPath_MatchesTemplate(t *testing.T) {
	d := read(t)
	for sent, want := range map[string]string{
		"/v1/brands/acme.com":                      "/v1/brands/{identifier}",
		"/v1/brands/https%3A%2F%2Facme.com%2Fjobs": "/v1/brands/{identifier}",
		"/v1/brands/batch":                         "/v1/brands/batch",
		"/v1/brands/":                              "",
		"/v1/brands/a/b":                           "",
		"/v1/me/":                                  "",
		"/v2/brands/acme.com/":                     "/v2/brands/{identifier}",
		"/v2/brands/id/x":                          "/v2/brands/id/{id}",
		"/v2/brands/id":                            "",
		"/v2/brands/domain/":                       "",
		"/v2/brands/batch/":                        "/v2/brands/batch",
		"/v2/brands/other/x":                       "",
		"/logo/acme.com":                           "/logo/{domain}",
		"/logo/acme.com/":                          "/logo/{domain}",
		"/logo/acme.com/icon.png":                  "/logo/{domain}/{type}",
		"/logo/acme.com/w/64/icon/theme/dark/":     "/logo/{domain}/{type}",
		"/logo/acme.com//":                         "/logo/{domain}/{type}",
		"/logo//icon":                              "/logo/{domain}/{type}",
		"/logo/":                                   "/logo/{domain}",
		"/logo":                                    "/logo/{domain}",
		"/logos":                                   "",
		"/":                                        "",
	} {
		if got := openapitest.PathOf(d, sent); got != want {
			t.Errorf("%s is %q, want %q", sent, got, want)
		}
	}
	if got := openapitest.Methods(d, "/cdn/{file}"); !reflect.DeepEqual(got, []string{"GET", "HEAD"}) {
		t.Errorf("methods %v", got)
	}
}

// Tests that derive requests and values from the document rely on complete schemas.
func TestRead_WholeSchemas(t *testing.T) {
	d := read(t)
	brand := openapitest.Response(openapitest.Operation(d, "GET", "/v1/brands/{identifier}"), 200).Contents[0].Schema
	if brand.Name != "Brand" || !brand.Closed || len(brand.Properties) != 19 || slices.ContainsFunc(brand.Properties, func(p openapi.Property) bool { return !p.Required }) {
		t.Errorf("Brand is %+v", brand)
	}
	limit := openapitest.Operation(d, "GET", "/v1/search").Parameters[1].Schema
	if limit.Types[0] != "integer" || *limit.Minimum != 1 || *limit.Maximum != 20 || limit.Default != json.Number("10") {
		t.Errorf("limit is %+v", limit)
	}
	identifiers := openapitest.Operation(d, "POST", "/v1/brands/batch").Body.Contents[0].Schema.Properties[0]
	if identifiers.Name != "identifiers" || *identifiers.Schema.MinItems != 1 || *identifiers.Schema.MaxItems != 100 || identifiers.Schema.Items.Types[0] != "string" {
		t.Errorf("identifiers are %+v", identifiers)
	}
}

// Constructs for which code generators for Go and TypeScript failed, or generated useless types, must not return.
func TestDocument_SuitsCodeGenerators(t *testing.T) {
	source := testmust.Get(openapi.JSON(baseURL))(t)
	var root map[string]any
	testmust.Succeed(t, json.Unmarshal(source, &root))
	components := root["components"].(map[string]any)
	schemas := components["schemas"].(map[string]any)
	var look func(at string, value any)
	look = func(at string, value any) {
		switch value := value.(type) {
		case []any:
			for i, v := range value {
				look(at+"/"+strconv.Itoa(i), v)
			}
		case map[string]any:
			for name, v := range value {
				if name != "example" && name != "examples" { // which contain values, not schemas
					look(at+"/"+name, v)
				}
			}
			types, _ := value["type"].([]any)
			if len(slices.DeleteFunc(slices.Clone(types), func(v any) bool { return v == "null" })) > 1 {
				t.Errorf("%s: several types without oneOf", at)
			}
			if values, _ := value["enum"].([]any); slices.Contains(values, nil) {
				t.Errorf("%s: null is one of the values; use oneOf", at)
			}
			if value["type"] == "object" && value["properties"] == nil && value["additionalProperties"] == nil {
				t.Errorf("%s: an object of nothing; additionalProperties says that it holds anything", at)
			}
			if (value["type"] == "number" || slices.Contains(types, any("number"))) && value["format"] != "double" {
				t.Errorf("%s: a number that some generators read as a float32", at)
			}
			parts, _ := value["oneOf"].([]any)
			for i, part := range parts {
				if part := part.(map[string]any); part["type"] == nil && part["$ref"] == nil {
					t.Errorf("%s: part %d of oneOf has no type", at, i)
				}
			}
		}
	}
	look("schemas", schemas)
	look("responses", components["responses"])
	look("paths", root["paths"])
	for _, o := range read(t).Operations {
		for name := range schemas {
			if strings.EqualFold(o.ID+"Response", name) {
				t.Errorf("the generated answer type of %s collides with the schema %s", o.ID, name)
			}
		}
		for _, r := range o.Responses {
			if o.Method == http.MethodHead && len(r.Contents) > 0 {
				t.Errorf("%s, status %d: declares a body, which generators read as JSON", o.ID, r.Status)
			}
			for _, c := range r.Contents {
				if c.Schema == nil && !strings.HasPrefix(c.Type, "image/") {
					t.Errorf("%s, status %d: %s has no schema, so the body's type is unknown in every form", o.ID, r.Status, c.Type)
				}
			}
			// If two parts define one field the second wins: it must include all of the first.
			if len(r.Codes()) == 0 {
				continue
			}
			halves := r.Contents[0].Schema.AllOf
			for _, p := range halves[len(halves)-1].Properties {
				if len(p.Schema.AllOf) == 0 || p.Schema.AllOf[0].Name != "ErrorObject" {
					t.Errorf("%s, status %d: %s replaces the whole error", o.ID, r.Status, p.Name)
				}
			}
		}
	}
}
