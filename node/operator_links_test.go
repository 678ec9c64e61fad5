package node

import (
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/domain/operator"
	"letterhead/internal/apikey"
	"letterhead/internal/testmust"
	"letterhead/operations"
	"letterhead/projections/operators"
)

// operatorLink issues a link, and returns its URL and its token.
func operatorLink(t *testing.T, n *Node, name string, scope operator.Scope) (*url.URL, string) {
	t.Helper()
	issued := testmust.Get(n.Operations.Tokens.IssueLink(t.Context(), n.Operator(), name, scope))(t)
	link, err := url.Parse(issued.URL)
	if err != nil || issued.ExpiresAt.After(n.Now().Add(operator.LinkLifetime)) {
		t.Fatalf("the link expires at %s: %v", issued.ExpiresAt, err)
	}
	return link, link.Query().Get("token")
}

func TestEnterOperator_Link_IssuesTokenOfItsOperator(t *testing.T) {
	n := openNode(t)
	testmust.Succeed(t, n.Runner.CatchUp(t.Context()))
	link, token := operatorLink(t, n, "Jane Doe", operator.Support)
	if link.Scheme != "http" || link.Host != "127.0.0.1:8090" || link.Path != "/sign-in" || len(link.Query()) != 1 {
		t.Errorf("the link is %s", strings.ReplaceAll(link.String(), token, "TOKEN"))
	}
	text, entered, err := n.Operations.Tokens.Enter(t.Context(), token)
	if err != nil || entered.Name != "Jane Doe" || entered.Scope != operator.Support || entered.Token != "" || entered.State != "active" || !strings.HasSuffix(text, entered.Last4) {
		t.Fatalf("entered: %+v, %v", entered, err)
	}
	key, err := apikey.Parse(text)
	if err != nil || key.Kind != apikey.Operator {
		t.Fatalf("the token is of kind %s: %v", key.Kind, err)
	}
	found, err := n.Models.Operators.ByHash(t.Context(), key.Hash)
	if err != nil || found.ID != entered.ID || !found.ExpiresAt.Equal(found.IssuedAt.Add(operator.SessionLifetime)) || found.IssuedBy != "operator:"+entered.ID {
		t.Errorf("the token is %+v, %v", found, err)
	}
	if _, _, err := n.Operations.Tokens.Enter(t.Context(), token); !errors.Is(err, operator.ErrLinkUsed) {
		t.Errorf("the link again: %v, want %v", err, operator.ErrLinkUsed)
	}
	all, err := n.Operations.Tokens.List(t.Context(), operators.Selection{}, 10)
	if err != nil || len(all) != 1 || all[0].Name != "Jane Doe" || all[0].ID != entered.ID {
		t.Errorf("tokens %+v, %v", all, err)
	}
}

// The name of an operator who did not sign in is not needed any more.
func TestIssueOperatorLink_EarlierOneLapsed_ErasesItsName(t *testing.T) {
	var ahead atomic.Int64
	n := openNodeOf(t, Parts{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	testmust.Succeed(t, n.Runner.CatchUp(t.Context()))
	_, used := operatorLink(t, n, "Jane Doe", operator.Read)
	operatorLink(t, n, "John Doe", operator.Read)
	if _, _, err := n.Operations.Tokens.Enter(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	names := func() string {
		t.Helper()
		page := testmust.Get(n.Stores.Names.Page(t.Context(), "", 10))(t)
		var all []string
		for _, entry := range page {
			all = append(all, entry.Name)
		}
		return strings.Join(all, ", ")
	}
	operatorLink(t, n, "Ada", operator.Read)
	if got := names(); !strings.Contains(got, "John Doe") {
		t.Errorf("while the link can be used, the names are %s", got)
	}
	ahead.Add(int64(operator.LinkLifetime))
	operatorLink(t, n, "Grace", operator.Read)
	if got := names(); strings.Contains(got, "John Doe") || strings.Contains(got, "Ada") || !strings.Contains(got, "Jane Doe") || !strings.Contains(got, "Grace") {
		t.Errorf("after the link has expired, the names are %s", got)
	}
}

func TestIssueOperatorLink_AnotherProcessServes_LeadsToItsAddress(t *testing.T) {
	for address, want := range map[string]string{":8091": "localhost:8091", "0.0.0.0:8091": "localhost:8091", "[::]:8091": "localhost:8091", "10.1.2.3:8091": "10.1.2.3:8091", "admin.example.com:80": "admin.example.com:80"} {
		t.Run(address, func(t *testing.T) {
			t.Setenv("LETTERHEAD_ADMIN_LISTEN", address)
			if link, _ := operatorLink(t, openNode(t), "Jane Doe", operator.Read); link.Host != want {
				t.Errorf("the link leads to %s, want %s", link.Host, want)
			}
		})
	}
}

func TestIssueOperatorLink_NoAdminAPI_IsRejected(t *testing.T) {
	t.Setenv("LETTERHEAD_ADMIN_LISTEN", "off")
	n := openNode(t)
	if _, err := n.Operations.Tokens.IssueLink(t.Context(), n.Operator(), "Jane Doe", operator.Read); !errors.Is(err, operations.ErrAdminOff) {
		t.Errorf("%v, want %v", err, operations.ErrAdminOff)
	}
}
