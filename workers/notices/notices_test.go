package notices_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	domain "letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections/engine"
	projection "letterhead/projections/notices"
	"letterhead/projections/projectionstest"
	"letterhead/workers/notices"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

const (
	url     = "https://hooks.example.com/letterhead?token=t0ken"
	address = "ann@customer.example"
)

// service is a log, the read model of notices and the commands, with a clock that the test sets.
type service struct {
	*testing.T
	env      *projectionstest.Env
	runner   *engine.Runner
	model    *projection.Model
	commands *commands.Notices
	names    *accountnames.Table
	metrics  *prometheus.Registry

	mu  sync.Mutex
	at  time.Time
	log []string // lines of the workers
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{T: t, env: projectionstest.Open(t), at: start}
	s.model = projection.New(s.env.Store)
	s.runner, _ = s.env.Start(engine.Config{}, s.model)
	var err error
	if s.names, err = accountnames.New(t.Context(), s.env.Store); err != nil {
		t.Fatal(err)
	}
	s.commands = commands.NewNotices(s.env.Log, eventschemas.Encoder{}, s.now, nil, s.names)
	return s
}

func (s *service) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// pass advances the clock.
func (s *service) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = s.at.Add(d)
}

// Write collects lines of logs.
func (s *service) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, string(p))
	return len(p), nil
}

// raise opens an account whose balance falls below its threshold.
func (s *service) raise(id string, destinations ...string) {
	s.Helper()
	s.open(id, destinations...)
	s.env.Events("account-"+id, s.now(), eventschemas.CreditsCharged{ChargeID: "c", Credits: 13, RequestID: "r", BrandID: "b", Domain: "example.com"})
	s.env.CatchUp(s.runner)
}

// open opens an account with notices.
func (s *service) open(id string, destinations ...string) {
	s.Helper()
	set := eventschemas.NoticesSet{LowBalance: 40}
	for _, destination := range destinations {
		value := url
		if destination == domain.Email {
			value = address
		}
		set.Webhook, set.Email = set.Webhook || destination == domain.Webhook, set.Email || destination == domain.Email
		testmust.Succeed(s, s.names.Put(s.Context(), commands.DestinationID(id, destination), value))
	}
	s.env.Events("account-"+id, s.now(), eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"}, eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 50})
	s.env.Events("notices-"+id, s.now(), set)
}

func (s *service) worker(senders map[string]notices.Sender) *notices.Worker {
	return s.workerWith(senders, s.commands)
}

func (s *service) workerWith(senders map[string]notices.Sender, deliveries notices.Deliveries) *notices.Worker {
	s.Helper()
	s.metrics = prometheus.NewRegistry()
	w, err := notices.New(notices.Config{Senders: senders, PollEvery: time.Millisecond, Now: s.now, Logger: slog.New(slog.NewTextHandler(s, nil)), Registerer: s.metrics}, s.model, deliveries)
	testmust.Succeed(s, err)
	return w
}

func (s *service) round(w *notices.Worker) {
	s.Helper()
	testmust.Succeed(s, w.Round(s.Context()))
	s.env.CatchUp(s.runner)
}

// expect compares the only delivery of an account.
func (s *service) expect(id, state string, attempts int64, reason string) domain.Delivery {
	s.Helper()
	all, err := s.model.Latest(s.Context(), id, projection.MaxPage)
	if err != nil || len(all) != 1 {
		s.Fatalf("the deliveries of account %s are %+v, %v, want one", id, all, err)
	}
	if d := all[0]; d.State != state || d.Attempts != attempts || d.Reason != reason {
		s.Fatalf("the delivery is %s after %d attempts with the reason %q, want %s after %d with %q", d.State, d.Attempts, d.Reason, state, attempts, reason)
	}
	return all[0]
}

// sent records what was sent, and answers as the test says.
type sent struct {
	mu      sync.Mutex
	notices []string
	answer  func(n notices.Notice) notices.Result // nil: delivered
}

func (s *sent) Send(_ context.Context, to string, n notices.Notice) notices.Result {
	s.mu.Lock()
	s.notices = append(s.notices, n.AccountID+" "+n.NoticeID+" "+to)
	s.mu.Unlock()
	if s.answer == nil {
		return notices.Result{}
	}
	return s.answer(n)
}

func (s *sent) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.notices)
}

func TestRound_EachDestinationOnce(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook, domain.Email)
	var hook, post sent
	w := s.worker(map[string]notices.Sender{domain.Webhook: &hook, domain.Email: &post})
	for range 3 {
		s.round(w)
		s.pass(48 * time.Hour)
	}
	id := domain.ID("a", domain.LowBalance, 2)
	if len(hook.notices) != 1 || hook.notices[0] != "a "+id+" "+url || len(post.notices) != 1 || post.notices[0] != "a "+id+" "+address {
		t.Errorf("sent %v and %v", hook.notices, post.notices)
	}
	for _, destination := range domain.Destinations {
		want := fmt.Sprintf("letterhead_notices_attempts_total{destination=%q,outcome=\"delivered\"} 1\n", destination)
		if !strings.Contains(s.exposition(), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// exposition returns the metrics as text.
func (s *service) exposition() string {
	s.Helper()
	all, err := s.metrics.Gather()
	testmust.Succeed(s, err)
	var out strings.Builder
	for _, family := range all {
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			fmt.Fprintf(&out, "%s{%s} %v\n", family.GetName(), strings.Join(labels, ","), m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	return out.String()
}

// TestRound_NeverAnswered_DeadLettersThenRetries goes through the whole schedule, with a new worker for each attempt.
func TestRound_NeverAnswered_DeadLettersThenRetries(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook)
	failing := &sent{answer: func(notices.Notice) notices.Result { return notices.Result{Reason: "status_503"} }}
	senders := map[string]notices.Sender{domain.Webhook: failing}
	for attempt := int64(1); attempt < domain.MaxAttempts; attempt++ {
		s.round(s.worker(senders))
		d := s.expect("a", domain.Open, attempt, "status_503")
		s.pass(d.NextAt.Sub(s.now()) - time.Microsecond)
		s.round(s.worker(senders)) // a moment too early
		s.expect("a", domain.Open, attempt, "status_503")
		s.pass(time.Microsecond)
	}
	w := s.worker(senders)
	s.round(w)
	d := s.expect("a", domain.DeadLettered, domain.MaxAttempts, "status_503")
	s.pass(365 * 24 * time.Hour)
	s.round(w)
	if failing.count() != int(domain.MaxAttempts) {
		t.Errorf("%d attempts, want %d", failing.count(), domain.MaxAttempts)
	}
	if text := s.exposition(); !strings.Contains(text, `letterhead_notices_open{state="dead_lettered"} 1`) || !strings.Contains(text, `{destination="webhook",outcome="dead_lettered"} 1`) {
		t.Errorf("the metrics are\n%s", text)
	}
	logged := strings.Join(s.log, "")
	if !strings.Contains(logged, d.NoticeID) || strings.Contains(logged, "hooks.example.com") {
		t.Errorf("the log is %q", logged)
	}

	by := commands.Request{ID: "retry", Actor: "operator:test"}
	_, events, err := s.model.Find(t.Context(), "a", d.NoticeID)
	testmust.Succeed(t, err)
	testmust.Succeed(t, testmust.Err(s.commands.Append(t.Context(), by, "a", events, eventschemas.NoticeReopened{NoticeID: d.NoticeID, Destination: domain.Webhook})))
	s.env.CatchUp(s.runner)
	failing.answer = nil
	s.round(w)
	s.expect("a", domain.Delivered, 1, "")
}

func TestRound_FinalFailure_DeadLettersAtOnce(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook)
	s.round(s.worker(map[string]notices.Sender{domain.Webhook: &sent{answer: func(notices.Notice) notices.Result { return notices.Result{Reason: "status_410", Final: true} }}}))
	s.expect("a", domain.DeadLettered, 1, "status_410")
}

func TestRound_ToppedUpBefore_SendsNothing(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook)
	s.env.Events("account-a", s.now(), eventschemas.CreditsGranted{GrantID: "g2", Kind: "topup", Credits: 3})
	s.env.CatchUp(s.runner)
	var hook sent
	s.round(s.worker(map[string]notices.Sender{domain.Webhook: &hook}))
	s.expect("a", domain.Outdated, 0, "")
	if hook.count() != 0 {
		t.Errorf("sent %v", hook.notices)
	}
}

func TestRound_DestinationRemoved_IsOutdated(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook)
	s.env.Events("notices-a", s.now(), eventschemas.NoticesSet{LowBalance: 40})
	s.env.CatchUp(s.runner)
	testmust.Succeed(t, s.names.Erase(t.Context(), commands.DestinationID("a", domain.Webhook)))
	var hook sent
	s.round(s.worker(map[string]notices.Sender{domain.Webhook: &hook}))
	s.expect("a", domain.Outdated, 0, "no_destination")
	if hook.count() != 0 {
		t.Errorf("sent %v", hook.notices)
	}
}

func TestRound_AccountClosed_FailedPaymentIsOutdated(t *testing.T) {
	s := newService(t)
	s.open("a", domain.Webhook)
	s.fail("a", eventschemas.PaymentFailed{PaymentID: "in_1", FailedAt: start})
	s.env.Events("account-a", s.now(), eventschemas.AccountClosed{Reason: "test"})
	s.env.CatchUp(s.runner)
	var hook sent // whose destination is not erased yet
	s.round(s.worker(map[string]notices.Sender{domain.Webhook: &hook}))
	s.expect("a", domain.Outdated, 0, "no_destination")
	if hook.count() != 0 {
		t.Errorf("sent %v", hook.notices)
	}
}

// TestRound_DestinationNotStoredYet_IsTriedAgain attempts between the two writes of commands.Notices.Set.
func TestRound_DestinationNotStoredYet_IsTriedAgain(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook)
	id := commands.DestinationID("a", domain.Webhook)
	testmust.Succeed(t, s.names.Erase(t.Context(), id))
	var hook sent
	w := s.worker(map[string]notices.Sender{domain.Webhook: &hook})
	s.round(w)
	d := s.expect("a", domain.Open, 1, "no_destination")
	testmust.Succeed(t, s.names.Put(t.Context(), id, url))
	s.pass(d.NextAt.Sub(s.now()))
	s.round(w)
	s.expect("a", domain.Delivered, 2, "")
}

func TestRound_NoSender_IsTriedAgain(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Email)
	s.round(s.worker(nil))
	s.expect("a", domain.Open, 1, "not_configured")
}

// TestTwoWorkers_EachAttemptIsSentOnce lets two nodes that both believe to lead race for the same notices.
func TestTwoWorkers_EachAttemptIsSentOnce(t *testing.T) {
	s := newService(t)
	const accounts = 12
	for i := range accounts {
		s.raise(fmt.Sprint("a", i), domain.Webhook, domain.Email)
	}
	var all sent
	senders := map[string]notices.Sender{domain.Webhook: &all, domain.Email: &all}
	workers := []*notices.Worker{s.worker(senders), s.worker(senders)}
	for range 3 {
		var both sync.WaitGroup
		for _, w := range workers {
			both.Go(func() {
				if err := w.Round(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		s.env.CatchUp(s.runner)
	}
	seen := map[string]bool{}
	for _, one := range all.notices {
		if seen[one] {
			t.Errorf("sent twice: %s", one)
		}
		seen[one] = true
	}
	if len(seen) != 2*accounts {
		t.Errorf("%d deliveries, want %d", len(seen), 2*accounts)
	}
}

// stopping loses the outcomes of attempts, as a node that stops after sending.
type stopping struct{ notices.Deliveries }

func (s stopping) Settle(context.Context, commands.Request, string, eventschemas.NoticeSettled) (uint64, error) {
	return 0, eventlog.ErrUnavailable
}

func TestNodeStops_AfterSending_RepeatsLaterWithSameID(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook)
	var hook sent
	senders := map[string]notices.Sender{domain.Webhook: &hook}
	s.round(s.workerWith(senders, stopping{s.commands}))
	d := s.expect("a", domain.Open, 1, "")
	w := s.worker(senders)
	s.round(w)
	if hook.count() != 1 {
		t.Fatalf("sent %v before the attempt has ended", hook.notices)
	}
	s.pass(d.NextAt.Sub(s.now()))
	s.round(w)
	s.expect("a", domain.Delivered, 2, "")
	if len(hook.notices) != 2 || hook.notices[0] != hook.notices[1] {
		t.Errorf("sent %v, want the same notice twice", hook.notices)
	}
}

// TestNodeStops_BeforeLastOutcome_DeadLetters loses the outcome of the last attempt.
func TestNodeStops_BeforeLastOutcome_DeadLetters(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook)
	var hook sent
	senders := map[string]notices.Sender{domain.Webhook: &hook}
	for range domain.MaxAttempts {
		s.round(s.workerWith(senders, stopping{s.commands}))
		s.pass(48 * time.Hour)
	}
	s.round(s.worker(senders))
	s.expect("a", domain.DeadLettered, domain.MaxAttempts, "no_outcome")
	if hook.count() != int(domain.MaxAttempts) {
		t.Errorf("%d attempts, want %d", hook.count(), domain.MaxAttempts)
	}
}

// TestRun_SlowReceiver_DelaysOnlyItsOwnNotices holds the notice of one account until the other is delivered, and stops.
func TestRun_SlowReceiver_DelaysOnlyItsOwnNotices(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook)
	s.pass(time.Second)
	s.raise("b", domain.Webhook)
	other := make(chan struct{})
	hook := &sent{answer: func(n notices.Notice) notices.Result {
		if n.AccountID == "b" {
			close(other)
			return notices.Result{}
		}
		select {
		case <-other:
			return notices.Result{}
		case <-t.Context().Done():
			return notices.Result{Reason: "canceled"}
		}
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := s.worker(map[string]notices.Sender{domain.Webhook: hook})
	go func() { ended <- w.Run(ctx) }()
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		counts, err := s.model.Counts(t.Context())
		return err == nil && counts[domain.Open] == 0
	}); !ok {
		t.Fatal("the notices are not delivered")
	}
	stop()
	if err := testwait.Receive(t, ended, "the end of the worker"); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"a", "b"} {
		s.expect(id, domain.Delivered, 1, "")
	}
}

// A worker that is stopped records what it knows of the attempt. senderFunc is a Sender.
type senderFunc func(ctx context.Context) notices.Result

func (f senderFunc) Send(ctx context.Context, _ string, _ notices.Notice) notices.Result {
	return f(ctx)
}

func TestRun_StoppedWhileSending_CompletesTheAttempt(t *testing.T) {
	s := newService(t)
	s.raise("a", domain.Webhook)
	ctx, stop := context.WithCancel(t.Context())
	w := s.worker(map[string]notices.Sender{domain.Webhook: senderFunc(func(sending context.Context) notices.Result {
		stop()
		if sending.Err() != nil {
			return notices.Result{Reason: "canceled"}
		}
		return notices.Result{}
	})})
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	s.env.CatchUp(s.runner)
	s.expect("a", domain.Delivered, 1, "")
}
