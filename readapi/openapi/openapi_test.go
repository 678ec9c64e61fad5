package openapi_test

import (
	"encoding/json"
	"testing"

	"letterhead/readapi/openapi"
)

func TestX(t *testing.T) {
	b, err := openapi.JSON("https://x.example")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(len(b), json.Valid(b))
	d, err := openapi.Read("https://x.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range d.Operations {
		t.Log(o.Method, o.Path, o.Tag, o.Keys, o.Security, len(o.Parameters), len(o.Responses))
		for _, r := range o.Responses {
			if o.ID == "getBrand" {
				t.Log(r.Status, r.Codes(), len(r.Headers))
			}
		}
	}
}
