package readapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// withKey adds a customer's key to each request of the official client.
type withKey struct {
	key  string
	next http.RoundTripper
}

func (w withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.key)
	return w.next.RoundTrip(r)
}

func (c *customer) session(version string) (*sdk.ClientSession, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	transport := &sdk.StreamableClientTransport{
		Endpoint: c.s.url + "/mcp", HTTPClient: &http.Client{Transport: withKey{c.secret, c.s.transport}}, MaxRetries: -1,
	}
	return client.Connect(c.s.t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
}

// TestMCPClient_EveryVersion_UsesEveryTool checks the results against the output schemas that
// the client got, made strict, so that no field may be missing from a schema.
func TestMCPClient_EveryVersion_UsesEveryTool(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Starter, 50)
	id := s.known("acme.com", record("acme"))
	s.known("plain.com", plainRecord("plain"))
	restricted := eventschemas.Record{Restriction: &eventschemas.Restriction{Code: "nsfw", Message: "Adult content."}, NSFW: true}
	s.known("adult.com", restricted)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			ctx := t.Context()
			session := testmust.Get(c.session(version))(t)
			defer session.Close()
			init := session.InitializeResult()
			if init.ProtocolVersion != version || init.ServerInfo.Name != "letterhead" || init.Capabilities.Tools == nil || init.Capabilities.Tools.ListChanged || init.Capabilities.Prompts != nil || init.Instructions == "" {
				t.Fatalf("initialize result %+v", init)
			}
			schemas := listedTools(t, session)
			call := func(tool string, arguments map[string]any) *sdk.CallToolResult {
				t.Helper()
				result := testmust.Get(session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments}))(t)
				if !result.IsError {
					if err := schemas[tool].Validate(result.StructuredContent); err != nil {
						t.Errorf("result of %s: %v", tool, err)
					}
				}
				return result
			}
			for _, identifier := range []string{"acme.com", "https://www.acme.com/about", "info@acme.com", id, "plain.com", "adult.com"} {
				if result := call("get_brand", map[string]any{"identifier": identifier}); result.IsError {
					t.Errorf("%s: %+v", identifier, result.Content[0])
				}
			}
			found := call("search_brands", map[string]any{"query": "acme", "limit": 3})
			if results := found.StructuredContent.(map[string]any)["results"].([]any); len(results) == 0 || results[0].(map[string]any)["domain"] != "acme.com" {
				t.Errorf("search_brands returned %+v", found.StructuredContent)
			}
			logo := call("get_logo_url", map[string]any{"domain": "www.Acme.com", "type": "symbol", "size": 64})
			if got := logo.StructuredContent.(map[string]any)["url"]; got != baseURL+"/logo/acme.com?size=64&type=symbol" {
				t.Errorf("get_logo_url returned %v", got)
			}
			s.crawler.fails("example.org", brand.DNS)
			if missing := call("get_brand", map[string]any{"identifier": "example.org"}); !missing.IsError || !strings.Contains(missing.Content[0].(*sdk.TextContent).Text, "domain_not_found") {
				t.Errorf("get_brand of an unknown domain returned %+v, want domain_not_found", missing)
			}
			for _, bad := range []*sdk.CallToolParams{{Name: "no_tool"}, {Name: "get_brand"}, {Name: "search_brands", Arguments: map[string]any{"query": "x", "limit": 21}}} {
				if _, err := session.CallTool(ctx, bad); err == nil || !strings.Contains(err.Error(), "nvalid") && !strings.Contains(err.Error(), "no such tool") {
					t.Errorf("invalid call: result %+v, error %v", bad, err)
				}
			}
			if version != "2026-07-28" {
				if err := session.Ping(ctx, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// listedTools returns the output schemas of the tools from tools/list.
func listedTools(t *testing.T, session *sdk.ClientSession) map[string]*jsonschema.Schema {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	testmust.Succeed(t, err)
	schemas := map[string]*jsonschema.Schema{}
	for _, tool := range list.Tools {
		a := tool.Annotations
		if tool.Title == "" || tool.Description == "" || !a.ReadOnlyHint || a.DestructiveHint == nil || *a.DestructiveHint || !a.IdempotentHint || a.OpenWorldHint == nil || *a.OpenWorldHint != (tool.Name != "get_logo_url") {
			t.Errorf("%s: %+v", tool.Name, a)
		}
		compiler := jsonschema.NewCompiler()
		strict := closed(tool.OutputSchema)
		testmust.Succeed(t, compiler.AddResource("out", strict))
		if schemas[tool.Name], err = compiler.Compile("out"); err != nil {
			t.Fatal(err)
		}
	}
	if names := slices.Sorted(maps.Keys(schemas)); !slices.Equal(names, []string{"get_brand", "get_logo_url", "search_brands"}) {
		t.Fatalf("tools %v", names)
	}
	return schemas
}

// closed forbids every field that a schema does not name.
func closed(schema any) any {
	switch schema := schema.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range schema {
			out[k] = closed(v)
		}
		if schema["type"] == "object" {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		out := make([]any, len(schema))
		for i, v := range schema {
			out[i] = closed(v)
		}
		return out
	default:
		return schema
	}
}
