package eventschemas_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// schema contains the parts of a JSON Schema that are compared with a struct.
type schema struct {
	Ref        string            `json:"$ref"`
	Schema     string            `json:"$schema"`
	Type       any               `json:"type"`
	Additional *bool             `json:"additionalProperties"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	AnyOf      []schema          `json:"anyOf"`
	Defs       map[string]schema `json:"$defs"`
}

func readSchema(t *testing.T, file string) schema {
	t.Helper()
	data := testmust.Get(fs.ReadFile(eventschemas.Schemas(), file))(t)
	var s schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s
}

// comparison walks a struct and its schema in parallel.
type comparison struct {
	t    *testing.T
	file string
	root schema
}

// resolve follows a reference, and the first alternative of a nullable one.
func (c comparison) resolve(s schema) (comparison, schema) {
	if len(s.AnyOf) > 0 {
		s = s.AnyOf[0]
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		return c, c.root.Defs[name]
	}
	if s.Ref != "" {
		root := readSchema(c.t, path.Join(path.Dir(c.file), s.Ref))
		return comparison{c.t, s.Ref, root}, root
	}
	return c, s
}

func (c comparison) same(where string, goType reflect.Type, s schema) {
	c.t.Helper()
	c, s = c.resolve(s)
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	switch {
	case goType == reflect.TypeFor[time.Time](), goType == reflect.TypeFor[eventschemas.JSONText]():
		return
	case goType.Kind() == reflect.Slice:
		if s.Items == nil {
			c.t.Errorf("%s is a list in Go but not in the schema", where)
			return
		}
		c.same(where+"[]", goType.Elem(), *s.Items)
		return
	case goType.Kind() != reflect.Struct:
		return
	}
	if s.Additional == nil || *s.Additional {
		c.t.Errorf("%s: the schema allows additional properties", where)
	}
	var names, required []string
	for i := range goType.NumField() {
		name, options, _ := strings.Cut(goType.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		if options != "omitempty" {
			required = append(required, name)
		}
		property, ok := s.Properties[name]
		if !ok {
			c.t.Errorf("%s.%s is missing in the schema", where, name)
			continue
		}
		c.same(where+"."+name, goType.Field(i).Type, property)
	}
	for name := range s.Properties {
		if !slices.Contains(names, name) {
			c.t.Errorf("%s.%s is missing in Go", where, name)
		}
	}
	slices.Sort(required)
	if got := slices.Sorted(slices.Values(s.Required)); !slices.Equal(got, required) {
		c.t.Errorf("%s requires %v, the struct always writes %v", where, got, required)
	}
}

func TestSchemasDescribeTheStructs(t *testing.T) {
	for name, ev := range golden {
		eventType, version := typeAndVersion(t, name)
		if version != eventschemas.Current().Version(eventType) {
			continue
		}
		file := eventType + ".v" + string(rune('0'+version)) + ".json"
		root := readSchema(t, file)
		if root.Schema != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s has the $schema %q", file, root.Schema)
		}
		comparison{t, file, root}.same(eventType, reflect.TypeOf(ev), root)
	}
}

func TestSchemas_EveryFileIsUsed(t *testing.T) {
	files := testmust.Get(fs.Glob(eventschemas.Schemas(), "*.json"))(t)
	for _, file := range files {
		eventType, version := typeAndVersion(t, strings.TrimSuffix(file, ".json"))
		if version > eventschemas.Current().Version(eventType) {
			t.Errorf("%s belongs to no event type", file)
		}
	}
}

// objects calls do with every object in a document; do does not modify it.
func objects(node any, do func(map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		do(node)
		for _, child := range node {
			objects(child, do)
		}
	case []any:
		for _, child := range node {
			objects(child, do)
		}
	}
}

// optional lists the fields that may be absent.
var optional = []string{
	"payment_id", "money", "tax", "reason", "hold_id", "item", "idempotency_key_hash", "request_hash", "key_id", "note",
	"searches", "logos", "keys_used", "etag", "last_modified", "expires_at", "scopes", "origins", "person", "note_id",
	"by_convention", "limit", "period",
}

// optionalInBilling lists the fields that may be absent in billing events.
var optionalInBilling = []string{
	"kind", "subject", "state", "account_id", "customer", "payment_id", "invoice_id", "grant_kind", "credits", "prices", "money", "tax",
	"attempt", "problem", "reason", "plan",
}

func TestSchemas_RejectMissingAndUnknownFields(t *testing.T) {
	for name := range golden {
		eventType, version := typeAndVersion(t, name)
		var doc any
		testmust.Succeed(t, json.Unmarshal(readGolden(t, name), &doc))
		valid := func() error {
			data := testmust.Get(json.Marshal(doc))(t)
			return eventschemas.ValidateJSON(eventType, version, data)
		}
		testmust.Succeed(t, valid())
		objects(doc, func(object map[string]any) {
			object["unknown"] = 1
			if err := valid(); !errors.Is(err, eventschemas.ErrSchemaViolation) {
				t.Errorf("ValidateJSON of %s with an unknown field: %v", name, err)
			}
			delete(object, "unknown")
			for field, value := range object {
				_, isRecord := object["nsfw"] // a record's logos are required
				delete(object, field)
				err := valid()
				names := optional
				if object["processor"] != nil || object["outcome"] != nil {
					names = optionalInBilling
				}
				if may := slices.Contains(names, field) && !isRecord && !requiredHere(object, field); may != (err == nil) {
					t.Errorf("ValidateJSON of %s without %s: %v", name, field, err)
				}
				object[field] = value
			}
		})
	}
}

// requiredHere reports whether a field that is optional elsewhere is required in the object.
func requiredHere(object map[string]any, field string) bool {
	has := func(name string) bool { _, ok := object[name]; return ok }
	switch field {
	case "key_id": // optional in a charge, its reversal and a hold
		return !has("charge_id") && !has("hold_id")
	case "limit", "period": // optional in the limit of a key only
		return !has("key_id")
	case "money":
		return has("tax") || has("fee_id")
	case "payment_id":
		return has("refund_id") || has("fee_id") || has("attempt") && !has("processor")
	case "attempt": // optional in a billing report only
		return has("notice_id")
	case "reason":
		return !has("grant_id") && !has("outcome") && !has("value")
	case "expires_at": // optional for a token of an operator only
		return has("link_id")
	case "note": // optional in a reversal only
		return !has("charge_id")
	case "person":
		return has("hash")
	case "hold_id":
		return !has("charge_id") || has("item")
	case "idempotency_key_hash":
		return has("request_hash")
	case "request_hash":
		return has("idempotency_key_hash")
	}
	return false
}

func TestSchemas_RejectWrongValues(t *testing.T) {
	for _, c := range []struct{ golden, field, value string }{
		{"AccountNoted.v1", "text", `""`}, {"AccountOpened.v1", "plan", `"platinum"`}, {"AccountOpened.v1", "account_id", `"1"`}, {"AccountOpened.v1", "holder", `""`},
		{"CreditsGranted.v1", "kind", `"gift"`}, {"CreditsGranted.v1", "credits", `0`}, {"CreditsGranted.v1", "credits", `1.5`}, {"CreditsGranted.v1", "credits", `"1"`},
		{"CreditsGranted.v1", "money", `{"minor":1,"currency":"eur"}`}, {"CreditsGranted.v1", "money", `{"minor":-1,"currency":"EUR"}`}, {"CreditsGranted.v1", "money", `null`},
		{"CreditsHeld.v1", "deadline", `"2026-11-21"`}, {"CreditsHeld.v1", "deadline", `"2026-11-21T08:44:01+02:00"`}, {"CreditsHeld.v1", "deadline", `"2026-13-21T08:44:01Z"`},
		{"CreditsHeld.v1", "domain", `"Acme.com"`}, {"CreditsHeld.v1", "domain", `"acme"`},
		{"CreditsCharged.v1", "record_revision", `-1`}, {"CreditsCharged.v1", "request_hash", `"abc"`}, {"CreditsCharged.v1", "brand_id", `"12864C63-AC45-5D92-8400-971F92FE7D18"`},
		{"HoldReleased.v1", "cause", `"bored"`}, {"ChargeReversed.v1", "reason", `"because"`}, {"KeyIssued.v1", "last4", `"abcde"`}, {"KeyIssued.v1", "kind", `"public"`},
		{"KeyIssued.v1", "hash", `"9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08"`},
		{"KeyIssued.v2.limited", "scopes", `["lookup"]`}, {"KeyIssued.v2.limited", "scopes", `[]`}, {"KeyIssued.v2.limited", "origins", `[]`}, {"KeyIssued.v2.limited", "origins", `["https://acme.com/"]`},
		{"KeyIssued.v2.limited", "origins", `["https://acme.com","https://acme.com"]`}, {"KeyIssued.v2.limited", "origins", `["acme.com"]`},
		{"UsageTicked.v1", "entries", `[]`}, {"UsageTicked.v1", "entries", `[{"account_id":"` + accountID + `","month":"2026-13"}]`},
		{"LogosAllotted.v1", "requests", `0`},
		{"CrawlRequested.v1", "lane", `"fast"`}, {"CrawlRequested.v1", "cause", `"whim"`}, {"CrawlRequested.v1", "allowed_ms", `0`},
		{"CrawlFailed.v1", "outcome", `"bored"`}, {"CrawlFailed.v1", "remember_seconds", `0`}, {"CrawlSucceeded.v1", "final_url", `"/relative"`},
		{"CrawlSucceeded.v1", "evidence", `[{"field":"name","source":"s","method":"m","confidence":1.1}]`},
		{"LossAccepted.v1", "witnesses", `[]`}, {"LossAccepted.v1", "head", `-1`}, {"LossAccepted.v1", "reason", `""`}, {"LossAccepted.v1", "last_event_id", `"x"`},
		{"PaymentFeeRecorded.v1", "money", `{"minor":0,"currency":"EUR"}`}, {"PaymentFeeRecorded.v1", "fee_id", `""`}, {"BreakageRecognized.v1", "credits", `0`}, {"BreakageRecognized.v1", "policy", `""`},
		{"PeriodEnded.v1", "month", `"2026-00"`}, {"PeriodClosed.v1", "month", `"2026-13"`}, {"PeriodClosed.v1", "digest", `"x"`}, {"PeriodClosed.v1", "position", `-1`}, {"PeriodClosed.v1", "totals", `[{"ledger_account":"","commodity":"EUR","change":1,"balance":1}]`},
		{"LedgerCheckpointed.v1", "root", `"x"`}, {"LedgerCheckpointed.v1", "position", `0`}, {"LedgerCheckpointed.v1", "accounts", `-1`}, {"LedgerCheckpointed.v1", "note", `""`},
		{"OperatorTokenIssued.v1", "scope", `"owner"`}, {"OperatorTokenIssued.v1", "hash", `"x"`}, {"OperatorTokenIssued.v1", "last4", `"abc"`},
		{"OperatorLinkIssued.v1", "link_id", `""`}, {"OperatorLinkIssued.v1", "scope", `"owner"`}, {"OperatorLinkIssued.v1", "hash", `"x"`}, {"OperatorLinkIssued.v1", "expires_at", `"2026-11-21"`},
		{"NoticesSet.v1", "low_balance", `-1`}, {"NoticeAttempted.v1", "attempt", `0`}, {"NoticeAttempted.v1", "destination", `"pager"`}, {"NoticeAttempted.v1", "notice_id", `""`},
		{"NoticeSettled.v1", "attempt", `-1`}, {"NoticeSettled.v1", "outcome", `"lost"`}, {"NoticeSettled.v1", "reason", `"https://example.com/"`}, {"NoticeReopened.v1", "destination", `""`},
		{"PaymentFailed.v1", "payment_id", `""`}, {"PaymentFailed.v1", "attempt", `-1`}, {"BillingReported.v1.failure", "attempt", `0`}, {"BillingReported.v1.failure", "kind", `"failed"`},
		{"SignInLinkIssued.v1", "person", `"jane@example.com"`}, {"SignInLinkIssued.v1", "person", `""`}, {"SignInLinkIssued.v1", "hash", `"x"`}, {"SignInLinkIssued.v1", "expires_at", `"2026-11-21"`},
		{"SignedIn.v1", "session_id", `""`}, {"SignedIn.v1", "link_id", `""`}, {"SignedIn.v1", "person", `"Jane Doe"`}, {"SignedOut.v1", "session_id", `""`}, {"SignedOutEverywhere.v1", "person", `"-"`},
		{"FieldOverridden.v1", "field", `"slogan"`}, {"FieldOverridden.v1", "value", `"#ff0000"`}, {"FieldOverridden.v2", "reason", `""`}, {"OverrideRemoved.v1", "field", `"id"`},
	} {
		refusesField(t, c.golden, []string{c.field}, c.value)
	}
	for _, c := range []struct{ path, value string }{
		{"name", `5`}, {"links", `null`}, {"links", `[{"name":"myspace","url":"https://a.b"}]`}, {"links", `[{"name":"github","url":"a b"}]`},
		{"logos", `[{"type":"banner","theme":null,"formats":[],"tags":[]}]`}, {"logos", `[{"type":"icon","theme":"blue","formats":[],"tags":[]}]`},
		{"logos", `[{"type":"icon","theme":null,"formats":[{"id":"` + hashA + `","format":"ico","background":null,"width":1,"height":1,"size":1}],"tags":[]}]`},
		{"logos", `[{"type":"icon","theme":null,"formats":[{"id":"x","format":"svg","background":null,"width":1,"height":1,"size":1}],"tags":[]}]`},
		{"colors", `[{"hex":"#FFF","type":"accent","brightness":1}]`}, {"colors", `[{"hex":"#ffffff","type":"accent","brightness":256}]`},
		{"fonts", `[{"name":"A","type":"italic","origin":"google","origin_id":null,"weights":[]}]`}, {"fonts", `[{"name":"A","type":"body","origin":"google","origin_id":null,"weights":[0]}]`},
		{"og_image", `"/share.png"`}, {"quality_score", `1.01`}, {"quality_score", `-0.1`}, {"restriction", `{"code":"secret","message":"x"}`},
		{"company", `null`}, {"company", `{"employees":50,"founded_year":null,"kind":null,"location":null,"industries":[],"ticker":null,"tickers":[]}`},
		{"company", `{"employees":null,"founded_year":null,"kind":null,"location":null,"industries":[],"ticker":"ACM","tickers":[]}`},
		{"company", `{"employees":null,"founded_year":null,"kind":"PRIVATE","location":null,"industries":[],"ticker":null,"tickers":[]}`},
	} {
		refusesField(t, "CrawlSucceeded.v1", []string{"record", c.path}, c.value)
	}
}

func refusesField(t *testing.T, name string, where []string, value string) {
	t.Helper()
	eventType, version := typeAndVersion(t, name)
	var doc map[string]any
	testmust.Succeed(t, json.Unmarshal(readGolden(t, name), &doc))
	object := doc
	for _, step := range where[:len(where)-1] {
		object = object[step].(map[string]any)
	}
	last := where[len(where)-1]
	if _, ok := object[last]; !ok {
		t.Fatalf("%s has no %v", name, where)
	}
	object[last] = json.RawMessage(value)
	data := testmust.Get(json.Marshal(doc))(t)
	if err := eventschemas.ValidateJSON(eventType, version, data); !errors.Is(err, eventschemas.ErrSchemaViolation) {
		t.Errorf("ValidateJSON of %s with %v = %s: %v", name, where, value, err)
	}
}
