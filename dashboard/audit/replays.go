package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/dashboard/site"
	"letterhead/domain/timeline"
	"letterhead/eventschemas"
	"letterhead/projections/ledger"
)

// Limits of replays. Those that tests lower are in Limits.
const (
	// replayPage is the number of events that a replay has in memory at a time.
	replayPage = 2048
	// maxReplays limits the replays in memory that run or have ended.
	maxReplays = 4
	// replayKept is how long an ended replay is kept in memory after it was last looked at.
	replayKept = 10 * time.Minute
	// replayAbandoned is how long a replay runs on when its page is not loaded any more.
	replayAbandoned = time.Minute
	// replayTimeout limits the time that a replay runs.
	replayTimeout = 10 * time.Minute
	// maxDifferences limits the differences that are listed.
	maxDifferences = 10
)

// Limits are those that tests lower.
type Limits struct {
	// AtOnce is the number of events that a request folds, which takes some tens of milliseconds. If there are more,
	// the replay goes on in the background.
	AtOnce uint64
	// Running limits the replays that run in the background.
	Running int
	// Memory limits the memory of a replay, in bytes.
	Memory int
}

// DefaultLimits are those of a service. Their memory is enough for about three million events.
var DefaultLimits = Limits{AtOnce: 4096, Running: 2, Memory: 32 << 20}

// replay is an account, recomputed from its first event on. The events are its only source; read models are compared.
type replay struct {
	accountID string
	turn      sync.Mutex // of the goroutine that reads on

	mu       sync.Mutex // guards the rest
	timeline *timeline.Timeline
	settled  uint64 // the next revision when what was replayed had been compared
	end      *End   // nil unless it ends before the newest event
	failed   error  // why it stopped in the background

	// The comparison with the entries of the ledger.
	compared    uint64 // revision of the first one that was not compared
	held        int64  // credits that they hold
	differences []Difference
	more        int   // differences that are not listed
	uncompared  error // why further ones were not compared

	// Guarded by replays.mu.
	running bool
	asked   time.Time // when it was last looked at
}

// End is why a replay cannot go on.
type End struct {
	Revision     uint64 // of the first event that was not replayed
	Title, Text  string
	Inconsistent bool // the event is damaged
}

// Difference is a value of a read model that does not follow from the events.
type Difference struct {
	Revision               uint64
	What, Stored, Replayed string
}

// done reports whether everything up to a revision was replayed, and compared, that can be.
func (r *replay) done(newest uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled > newest || r.end != nil && r.settled == r.timeline.Next()
}

// read replays at most n further events up to a revision, page by page. The caller has the turn.
func (a *Auditor) read(ctx context.Context, r *replay, newest, n uint64) error {
	if r.settled < r.timeline.Next() || r.uncompared != nil { // an earlier comparison was not completed
		if err := a.compare(ctx, r); err != nil {
			return err
		}
	}
	for end := min(newest+1, r.timeline.Next()+n); r.end == nil && r.timeline.Next() < end; {
		from := r.timeline.Next()
		page, err := a.page(ctx, r.accountID, from, r.timeline.Head(), int(min(end-from, replayPage)))
		if broken := (*streamwriter.ChainError)(nil); err != nil && !errors.As(err, &broken) {
			return err
		} else if err == nil && len(page) == 0 {
			return fmt.Errorf("replay of account %s: the log has no event of revision %d any more", r.accountID, from)
		}
		r.fold(page, err, a.replays.limits.Memory)
		if err := a.compare(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// fold applies a page of events, which may end with an error of the hash chain.
func (r *replay) fold(page []Event, broken error, memory int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range page {
		e := &page[i]
		body, err := eventschemas.Decode(e.Type, e.SchemaVersion, e.Data)
		if err != nil {
			r.end = &End{e.Revision, "The event of revision " + site.Number(int64(e.Revision)) + " cannot be read",
				"It is damaged, or of a newer release. Neither it nor those after it are replayed.", true}
			return
		}
		r.timeline.Apply(body, e.OccurredAt, e.Head)
	}
	switch chain := (*streamwriter.ChainError)(nil); {
	case errors.As(broken, &chain):
		r.end = brokenChain(chain)
	case r.timeline.Size() > memory:
		r.end = &End{r.timeline.Next(), "The history is too long for this page",
			fmt.Sprintf("Events from revision %s on are not replayed here.", site.Number(int64(r.timeline.Next()))),
			false}
	}
}

func brokenChain(broken *streamwriter.ChainError) *End {
	return &End{broken.Revision, "The hash chain breaks at revision " + site.Number(int64(broken.Revision)),
		"The event of this revision was changed after it was stored: " + broken.Reason +
			". Neither it nor those after it are replayed.", true}
}

// compare compares the entries of the ledger with the replay. If it cannot, the replay keeps the reason. The caller has
// the turn.
func (a *Auditor) compare(ctx context.Context, r *replay) error {
	next := r.timeline.Next()
	if err := a.ledgers.Acquire(ctx, 1); err != nil {
		return err
	}
	defer a.ledgers.Release(1)
	var stopped error
	for e, err := range a.Ledger.Entries(ctx, r.accountID,
		ledger.Filter{FromRevision: r.compared, BeforeRevision: next}) {
		if err != nil {
			stopped = err
			break
		}
		r.compareEntry(&e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uncompared, r.settled = stopped, next
	return ctx.Err()
}

func (r *replay) compareEntry(e *ledger.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Revision > r.compared {
		r.differ(Difference{r.compared, "the entry in the ledger", "missing", "there"})
	}
	if balance := r.timeline.Balance(e.Revision); e.Balance != balance {
		r.differ(Difference{e.Revision, "the balance in the ledger", site.Number(e.Balance), site.Number(balance)})
	}
	r.held += e.Held
	r.compared = e.Revision + 1
}

func (r *replay) differ(d Difference) {
	if len(r.differences) == maxDifferences {
		r.more++
		return
	}
	r.differences = append(r.differences, d)
}

// replays are the replays in memory: at most one of an account.
type replays struct {
	auditor *Auditor
	ctx     context.Context // of those in the background
	cancel  context.CancelFunc
	group   sync.WaitGroup

	limits Limits

	mu      sync.Mutex
	kept    map[string]*replay
	running int
	closed  bool
	expire  *time.Timer
}

func newReplays(a *Auditor) *replays {
	s := &replays{auditor: a, kept: map[string]*replay{}, limits: a.Limits}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *replays) close() {
	s.mu.Lock()
	s.closed = true
	clear(s.kept)
	if s.expire != nil {
		s.expire.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	s.group.Wait()
}

// of returns an account's replay after it has read on, and whether it is being read on in the background. If it is not,
// and is not done, there is no room for it yet.
func (s *replays) of(ctx context.Context, accountID string, newest uint64) (r *replay, running bool, err error) {
	r = s.find(accountID)
	if !r.turn.TryLock() {
		return r, !r.done(newest), nil
	}
	r.mu.Lock()
	err, r.failed = r.failed, nil
	r.mu.Unlock()
	if err == nil {
		err = s.auditor.read(ctx, r, newest, s.limits.AtOnce)
	}
	if err == nil && !r.done(newest) && s.start(r, newest) {
		return r, true, nil
	}
	r.turn.Unlock()
	return r, false, err
}

// find returns the replay of an account that is kept, or else a new one.
func (s *replays) find(accountID string) *replay {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	now := s.auditor.Now()
	if r := s.kept[accountID]; r != nil {
		r.asked = now
		return r
	}
	return &replay{accountID: accountID, timeline: timeline.New(accountID), asked: now}
}

// start reads a replay on in the background, which takes the turn over, and keeps it. It reports whether there is room.
func (s *replays) start(r *replay, newest uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	other := s.kept[r.accountID]
	if s.closed || s.running >= s.limits.Running || other != nil && other != r || !s.makeRoom(r) {
		return false
	}
	s.kept[r.accountID] = r
	r.running = true
	s.running++
	s.group.Go(func() {
		defer r.turn.Unlock()
		err := s.run(r, newest)
		if err != nil {
			s.auditor.Logger.Warn("replay of an account", "account", r.accountID, "error", err)
		}
		r.mu.Lock()
		r.failed = err
		r.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		r.running = false
		s.running--
		if s.expire == nil && !s.closed {
			s.expire = time.AfterFunc(replayKept, s.expired)
		}
	})
	return true
}

// run reads a replay on until it is done, or its page was not loaded for some time.
func (s *replays) run(r *replay, newest uint64) error {
	ctx, cancel := context.WithTimeout(s.ctx, replayTimeout)
	defer cancel()
	var err error
	for err == nil && !r.done(newest) && !s.abandoned(r) {
		err = errors.Join(s.auditor.read(ctx, r, newest, replayPage), ctx.Err())
	}
	if s.ctx.Err() != nil {
		return nil // the service stops
	}
	return err
}

func (s *replays) abandoned(r *replay) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.auditor.Now().Sub(r.asked) > replayAbandoned
}

// forget drops the replays that were not looked at for long.
func (s *replays) forget() {
	for id, r := range s.kept {
		if !r.running && s.auditor.Now().Sub(r.asked) > replayKept {
			delete(s.kept, id)
		}
	}
}

// expired drops replays when none is asked for that would.
func (s *replays) expired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	s.expire = nil
	if len(s.kept) > 0 && !s.closed {
		s.expire = time.AfterFunc(replayKept, s.expired)
	}
}

// makeRoom drops the replay that was looked at least recently, if a new one would be too many.
func (s *replays) makeRoom(r *replay) bool {
	if s.kept[r.accountID] == r || len(s.kept) < maxReplays {
		return true
	}
	var oldest *replay
	for _, other := range s.kept {
		if !other.running && (oldest == nil || other.asked.Before(oldest.asked)) {
			oldest = other
		}
	}
	if oldest != nil {
		delete(s.kept, oldest.accountID)
	}
	return oldest != nil
}
