package figures_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections/projectionstest"
	"letterhead/workers/figures"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// patience limits the wait for an update on a busy machine.
const patience = time.Minute

// service is a log and the metrics of a worker that follows it.
type service struct {
	*testing.T
	env     *projectionstest.Env
	metrics *prometheus.Registry
	lines   testwait.Lines
	worker  *figures.Worker
}

func newService(t *testing.T) *service {
	s := &service{T: t, env: projectionstest.Open(t), metrics: prometheus.NewRegistry(), lines: testwait.NewLines()}
	var err error
	if s.worker, err = figures.New(figures.Config{UpdateEvery: time.Millisecond, Logger: s.lines.Logger(), Registerer: s.metrics}, s.env.Log); err != nil {
		t.Fatal(err)
	}
	return s
}

// lead runs the worker until the returned function is called.
func (s *service) lead() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.worker.Run(ctx) }()
	stop = func() {
		cancel()
		if err := testwait.Receive(s, ended, "the end of the worker"); err != nil {
			s.Errorf("the worker ended with %v", err)
		}
	}
	return stop
}

// series returns the series as lines in the order of their names and labels.
func (s *service) series() string {
	s.Helper()
	all, err := s.metrics.Gather()
	testmust.Succeed(s, err)
	var out strings.Builder
	for _, metric := range all {
		for _, m := range metric.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			fmt.Fprintf(&out, "%s{%s} %v\n", strings.TrimPrefix(metric.GetName(), "letterhead_books_"), strings.Join(labels, ","), m.GetGauge().GetValue())
		}
	}
	return out.String()
}

// expect waits until the worker exports exactly these series.
func (s *service) expect(want string) {
	s.Helper()
	want = strings.ReplaceAll(strings.TrimPrefix(want, "\n"), "\t", "")
	if _, ok := testwait.Until(patience, func() bool { return s.series() == want }); !ok {
		s.Fatalf("the metrics are\n%swant\n%s", s.series(), want)
	}
}

func TestRun_EventsOfAccounts_ExportsSums(t *testing.T) {
	s := newService(t)
	s.env.Events("account-a", at,
		eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"},
		eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 50},
		eventschemas.CreditsCharged{ChargeID: "c1", Credits: 30, RequestID: "r1"},
		eventschemas.PlanChanged{From: "free", To: "growth"},
		eventschemas.CreditsGranted{GrantID: "p", Kind: "topup", Credits: 100, PaymentID: "p", Money: &eventschemas.Money{Minor: 1190, Currency: "EUR"}, Tax: 190},
		eventschemas.CreditsCharged{ChargeID: "c2", Credits: 40, RequestID: "r2"}, // 20 of the free ones, 20 paid
	)
	s.env.Events("account-b", at,
		eventschemas.AccountOpened{AccountID: "b", Holder: "h", Plan: "starter"},
		eventschemas.CreditsGranted{GrantID: "p", Kind: "topup", Credits: 10, PaymentID: "p", Money: &eventschemas.Money{Minor: 500, Currency: "JPY"}},
	)
	s.env.Events("account-c", at, eventschemas.AccountOpened{AccountID: "c", Holder: "h", Plan: "starter"}, eventschemas.AccountClosed{Reason: "r"})
	stop := s.lead()
	before := `
	accounts{plan=growth} 1
	accounts{plan=starter} 1
	credits{kind=granted,origin=paid,plan=growth} 100
	credits{kind=granted,origin=paid,plan=starter} 10
	credits{kind=granted,origin=promotional,plan=free} 50
	credits{kind=used,origin=paid,plan=growth} 20
	credits{kind=used,origin=promotional,plan=free} 30
	credits{kind=used,origin=promotional,plan=growth} 20
	money{currency=EUR,kind=breakage} 0
	money{currency=EUR,kind=deferred} 8
	money{currency=EUR,kind=fees} 0
	money{currency=EUR,kind=received} 10
	money{currency=EUR,kind=recognized} 2
	money{currency=EUR,kind=refunded} 0
	money{currency=EUR,kind=tax} 1.9
	money{currency=JPY,kind=breakage} 0
	money{currency=JPY,kind=deferred} 500
	money{currency=JPY,kind=fees} 0
	money{currency=JPY,kind=received} 500
	money{currency=JPY,kind=recognized} 0
	money{currency=JPY,kind=refunded} 0
	money{currency=JPY,kind=tax} 0
	outstanding_credits{origin=paid,plan=growth} 80
	outstanding_credits{origin=paid,plan=starter} 10
	outstanding_credits{origin=promotional,plan=growth} 0
	outstanding_credits{origin=promotional,plan=starter} 0
	`
	s.expect(before)

	stop()
	s.expect("") // another node may lead
	stop = s.lead()
	s.expect(before)
	defer stop()
	s.env.Events("account-b", at.Add(time.Hour), eventschemas.PaymentRefunded{RefundID: "f", PaymentID: "p", Credits: 10, Money: &eventschemas.Money{Minor: 500, Currency: "JPY"}})
	s.expect(strings.NewReplacer(
		"money{currency=JPY,kind=deferred} 500", "money{currency=JPY,kind=deferred} 0",
		"money{currency=JPY,kind=refunded} 0", "money{currency=JPY,kind=refunded} 500",
		"outstanding_credits{origin=paid,plan=starter} 10", "outstanding_credits{origin=paid,plan=starter} 0",
		"	credits{kind=used,origin=paid", "	credits{kind=refunded,origin=paid,plan=starter} 10\n	credits{kind=used,origin=paid",
	).Replace(before))
}

func TestRun_SumTooLarge_EndsMetricsOnly(t *testing.T) {
	s := newService(t)
	defer s.lead()()
	s.env.Events("account-a", at, eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"})
	s.expect("accounts{plan=free} 1\noutstanding_credits{origin=paid,plan=free} 0\noutstanding_credits{origin=promotional,plan=free} 0\n")
	for i := range 3 {
		s.env.Events("account-a", at, eventschemas.CreditsGranted{GrantID: fmt.Sprint(i), Kind: "topup", Credits: 1 << 62})
	}
	s.lines.Wait(t, 1, "metrics of the books have ended")
	s.expect("")
}
