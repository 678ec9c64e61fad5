package adminapi_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"letterhead/domain/operator"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testservices"
)

// startTwo starts two nodes on shared services. The test is skipped if no database server is configured.
func startTwo(t *testing.T) (one, other *service) {
	t.Helper()
	shared := map[string]string{
		"LETTERHEAD_EVENTSTORE": esdbtest.Start(t).ConnectionString(), "LETTERHEAD_DATABASE": sqlstoretest.Schema(t, testservices.Postgres(t)),
		"LETTERHEAD_ASSETS": "file://" + filepath.ToSlash(t.TempDir()), "LETTERHEAD_ADMIN_LISTEN": "127.0.0.1:8090", // in links; nothing listens there
	}
	nodes := make([]*service, 2)
	for i, name := range []string{"a", "b"} {
		shared["LETTERHEAD_NODE"] = name
		nodes[i] = serve(t, shared)
	}
	issued, err := nodes[0].node.Operations.Tokens.Issue(t.Context(), nodes[0].node.Operator(), "test", operator.Admin, noEnd)
	nodes[0].must(err)
	for _, n := range nodes {
		n.tok[operator.Admin] = issued.Token
	}
	return nodes[0], nodes[1]
}

// Rule 9.
func TestNodes_TokenRevokedOnOne_OtherRejectsIt(t *testing.T) {
	one, other := startTwo(t)
	for range 5 {
		var token struct{ ID, Token string }
		one.post("/admin/tokens", `{"name":"ci","scope":"read"}`).want(http.StatusCreated, &token)
		list := request{method: "GET", path: "/admin/accounts", token: token.Token}
		other.send(list).want(http.StatusOK, nil)
		a := one.send(request{method: "DELETE", path: "/admin/tokens/" + token.ID}).want(http.StatusOK, nil)
		if a.header.Get("X-Unconfirmed") != "" {
			t.Error("the revocation is not confirmed")
		}
		for _, n := range []*service{other, one} {
			n.send(list).rejected(http.StatusUnauthorized, "revoked")
		}
	}
}

func TestNodes_SameKeyOnBoth_OpensOneAccount(t *testing.T) {
	one, other := startTwo(t)
	open := request{method: "POST", path: "/admin/accounts", body: `{"name":"Acme"}`, key: "open"}
	answers := make(chan answer, 2)
	for _, n := range []*service{one, other} {
		go func() {
			var got answer // its status is 0 if sending fails and ends this goroutine
			defer func() { answers <- got }()
			got = n.send(open)
		}()
	}
	ids := map[string]bool{}
	for range 2 {
		var a account
		if got := <-answers; got.status == http.StatusCreated {
			got.want(http.StatusCreated, &a)
			ids[a.Account.ID] = true
		}
	}
	var all struct{ Accounts []account }
	other.get("/admin/accounts").want(http.StatusOK, &all)
	if len(all.Accounts) != 1 || len(ids) != 1 || !ids[all.Accounts[0].Account.ID] {
		t.Errorf("opened %v, listed %+v", ids, all.Accounts)
	}
	var keys struct{ Keys []struct{ ID string } }
	other.get("/admin/accounts/"+all.Accounts[0].Account.ID+"/keys").want(http.StatusOK, &keys)
	if len(keys.Keys) != 2 {
		t.Errorf("%d keys, want 2", len(keys.Keys))
	}
}

// Positions of EventStoreDB are no numbers of events; the age of the oldest event that is not folded is a time.
func TestNodes_Health_HasTimesAndNoEvents(t *testing.T) {
	one, _ := startTwo(t)
	var health map[string]any
	one.get("/admin/health").want(http.StatusOK, &health)
	if _, counted := health["events"]; counted || health["position"] == nil || health["behind_ns"] == nil {
		t.Errorf("%v, want position and behind_ns, and no events", health)
	}
}
