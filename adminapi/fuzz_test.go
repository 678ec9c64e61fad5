package adminapi

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/internal/web"
	"letterhead/projections/accounts"
)

func FuzzParse(f *testing.F) {
	cursor := testmust.Get(encodeCursor("-balance", &accounts.Account{ID: "a", Balance: 3}))(f)
	f.Add("limit=2&sort=-balance&cursor="+cursor, `{"credits":1,"payment_id":"p","money":1,"currency":"EUR"}`, "localhost:80")
	f.Add("", "", "127.0.0.1.")
	f.Add("from=2026-11&as_of=x%zz", `{"a":{}}`, "[::1]")
	f.Fuzz(func(t *testing.T, query, body, host string) {
		q := parseQuery(query, "limit", "sort", "cursor", "from", "as_of")
		q.limit()
		q.order(accounts.Sorts)
		q.span("from")
		if last := after[accounts.Account](q); last != nil {
			text := testmust.Get(encodeCursor(q.values.Get("sort"), last))(t)
			if same, err := decodeCursor[accounts.Account](text, q.values.Get("sort")); err != nil || *same != *last {
				t.Errorf("%+v became %+v, %v", last, same, err)
			}
		}
		var g grant
		if err := decodeBody([]byte(body), &g); err == nil && !json.Valid([]byte(body)) {
			t.Errorf("accepted %q", body)
		}
		// A name is accepted only as it is, with a port, or with the dot of the root.
		if a := (&API{hosts: map[string]bool{"localhost": true}}); a.checkHost(&http.Request{Host: host}) == nil {
			name, _, _ := strings.Cut(strings.ToLower(host), ":")
			_, err := netip.ParseAddr(strings.Trim(strings.TrimSuffix(web.HostOf(host), "."), "[]"))
			if err != nil && strings.TrimSuffix(name, ".") != "localhost" && strings.Trim(name, "[].") != "localhost" {
				t.Errorf("host %q is accepted", host)
			}
		}
	})
}
