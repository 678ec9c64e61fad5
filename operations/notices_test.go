package operations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"letterhead/commands"
	domain "letterhead/domain/notices"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/node"
)

// interfering is a log in which another event comes before the second append to a stream of notices that reopens a delivery.
type interfering struct {
	eventlog.Log
	eventlog.Prober
	reopened int
	before   func()
}

func (l *interfering) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if strings.HasPrefix(stream, eventschemas.NoticesPrefix) && events[0].Type == (eventschemas.NoticeReopened{}).EventType() {
		if l.reopened++; l.reopened == 2 {
			l.before()
		}
	}
	return l.Log.Append(ctx, stream, expected, events)
}

func TestRetryNotice_AnotherEventBetween_ReopensBothDeliveries(t *testing.T) {
	log := &interfering{}
	n := openNodeOf(t, node.Parts{Log: func(l eventlog.Log) eventlog.Log { log.Log, log.Prober = l, eventlog.Probe(l); return log }})
	opened := testmust.Get(n.Operations.Accounts.Create(t.Context(), n.Operator(), "Acme", plan.Free))(t)
	id := opened.Account.ID
	low, url, address := int64(50), "https://hooks.example.com/", "ann@customer.example"
	testmust.Succeed(t, testmust.Err(n.Operations.Notices.Set(t.Context(), commands.SetNotices{Request: n.Operator(), AccountID: id, LowBalance: &low, Webhook: &url, Email: &address})))
	if _, err := n.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{
		Request: n.Operator(), AccountID: id, BrandID: "7c0c2b1e-5a39-5b8d-9a50-0f4a3f1d2c3b", Domain: "acme.com",
	}); err != nil {
		t.Fatal(err)
	}
	shown, err := n.Operations.Notices.Of(t.Context(), id)
	if err != nil || len(shown.Notices) != 2 {
		t.Fatalf("notices %+v, %v, want one of each destination", shown.Notices, err)
	}
	notice := shown.Notices[0].NoticeID
	settle := func(destination, outcome string) {
		t.Helper()
		settled := eventschemas.NoticeSettled{NoticeID: notice, Destination: destination, Outcome: outcome, Reason: "status_410"}
		testmust.Succeed(t, testmust.Err(n.Writers.Notices.Settle(t.Context(), n.Operator(), id, settled)))
	}
	for _, destination := range domain.Destinations {
		settle(destination, domain.DeadLettered)
	}
	log.before = func() { settle(domain.Webhook, domain.Failed) }
	if retried, err := n.Operations.Notices.Retry(t.Context(), n.Operator(), id, notice); retried != 2 || err != nil {
		t.Errorf("retried %d, %v, want 2", retried, err)
	}
	if shown, err = n.Operations.Notices.Of(t.Context(), id); err != nil || shown.Notices[0].State != domain.Open || shown.Notices[1].State != domain.Open {
		t.Errorf("notices %+v, %v, want both open", shown.Notices, err)
	}
	if _, err := n.Operations.Notices.Retry(t.Context(), n.Operator(), id, notice); !errors.Is(err, domain.ErrNotDead) {
		t.Errorf("another retry: %v, want %v", err, domain.ErrNotDead)
	}
}
