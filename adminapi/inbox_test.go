package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/testwait"
)

func TestInbox_EventOfUnknownCustomer_IsListedReplayedAndDismissed(t *testing.T) {
	s := start(t)
	s.must(s.node.Writers.Billing.Record(t.Context(), s.node.Operator(), eventschemas.BillingReported{
		Processor: "stripe", EventID: "evt_1", Type: "customer.subscription.created", Kind: "subscription", Subject: "sub_1", State: "active", Customer: "cus_1",
	}))
	s.applyReports()
	type listing struct {
		Reports []struct{ ID, State, Reason, Customer string }
		Total   int
	}
	inbox := func() (l listing) {
		t.Helper()
		s.await(func() bool {
			l = listing{}
			s.get("/admin/billing/inbox?state=inbox").want(http.StatusOK, &l)
			return l.Total == 1
		})
		return l
	}
	if l := inbox(); l.Reports[0].ID != "stripe:evt_1" || l.Reports[0].Customer != "cus_1" || l.Reports[0].Reason == "" {
		t.Fatalf("the inbox has %+v", l.Reports)
	}
	type shown struct {
		ID, State, Reason string
		Events            []struct {
			Event, Actor string
			Data         map[string]any
		}
	}
	var whole shown
	if s.get("/admin/billing/inbox/stripe:evt_1").want(http.StatusOK, &whole); whole.ID != "stripe:evt_1" || whole.State != "inbox" || whole.Reason == "" || len(whole.Events) != 2 ||
		whole.Events[0].Event != "BillingReported" || whole.Events[0].Data["subject"] != "sub_1" || whole.Events[1].Actor != "system:billing" || whole.Events[1].Data["outcome"] != "inbox" {
		t.Errorf("the report is %+v", whole)
	}
	s.post("/admin/billing/inbox/stripe:evt_1/replay", "").want(http.StatusOK, nil)
	inbox() // the customer is still unknown
	dismiss := request{method: "POST", path: "/admin/billing/inbox/stripe:evt_1/dismiss", body: `{"reason":"by hand"}`, key: "dismiss"}
	s.send(dismiss).want(http.StatusOK, nil)
	if a := s.send(dismiss).want(http.StatusOK, nil); a.header.Get("Idempotency-Replayed") != "true" {
		t.Error("the repeat is not the first answer")
	}
	var l listing
	if s.get("/admin/billing/inbox").want(http.StatusOK, &l); l.Total != 0 || len(l.Reports) != 0 {
		t.Errorf("after the dismissal the inbox has %+v", l)
	}
	if s.get("/admin/billing/inbox/stripe:evt_1").want(http.StatusOK, &whole); whole.State != "dismissed" || whole.Reason != "by hand" {
		t.Errorf("the dismissed report is %+v", whole)
	}
	s.get("/admin/billing/inbox/stripe:evt_2").rejected(http.StatusNotFound, "There is no report stripe:evt_2")
	s.get("/admin/billing/inbox/evt_1").rejected(http.StatusBadRequest, "stripe:evt_1")
	s.post("/admin/billing/inbox/stripe:evt_1/replay", "").rejected(http.StatusConflict, "dismissed already")
	s.post("/admin/billing/inbox/stripe:evt_2/replay", "").rejected(http.StatusNotFound, "evt_2")
	s.post("/admin/billing/inbox/stripe:"+strings.Repeat("e", 300)+"/replay", "").rejected(http.StatusNotFound, "There is no report")
	s.post("/admin/billing/inbox/evt_1/dismiss", "").rejected(http.StatusBadRequest, "stripe:evt_1")
	s.get("/admin/billing/inbox?state=done").rejected(http.StatusBadRequest, "inbox, waiting, new")
	s.send(request{method: "POST", path: "/admin/billing/inbox/stripe:evt_1/replay", token: s.tok[operator.Support]}).rejected(http.StatusForbidden, "finance")
}

// await waits until a condition holds.
func (s *service) await(holds func() bool) {
	s.t.Helper()
	if _, ok := testwait.Until(testwait.Timeout, holds); !ok {
		s.t.Fatal("the condition does not hold in time")
	}
}
