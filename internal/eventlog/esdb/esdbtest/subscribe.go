package esdbtest

import (
	"errors"
	"fmt"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// readBatch is the number of matching events in a page while a subscription catches up.
const readBatch = 32

// follower is a subscription. It follows Enumerator.AllSubscriptionFiltered of 24.2, and can treat slow subscribers as
// older servers do.
type follower struct {
	server  *Server
	drops   bool // drop the subscription if it is too slow
	out     streams.Streams_ReadServer
	filter  *filter // nil for none
	dropped <-chan struct{}
	all     []*record
	news    <-chan struct{}
	next    int // index of the next event to examine
	// from is the commit and prepare position at which the subscription begins. Events up to it are never sent.
	from [2]uint64
	// sent is the commit and prepare position of the last event or checkpoint that was sent.
	sent [2]uint64
}

// subscribeAll sends the existing events after a position, a message that the subscription has caught up, and then new
// events. Since 24.2 a subscription that is too slow returns to catching up.
func (s *Server) subscribeAll(options *streams.ReadReq_Options, out streams.Streams_ReadServer) error {
	f := &follower{server: s, out: out, drops: s.dropsSlow()}
	var err error
	if f.filter, err = newFilter(options.GetFilter()); err != nil {
		return err
	}
	s.mu.Lock()
	f.dropped = s.dropped
	s.mu.Unlock()
	f.all, f.news = s.store.everything()
	switch p := options.GetAll().GetAllOption().(type) {
	case *streams.ReadReq_Options_AllOptions_Position:
		if f.next, err = s.find(f.all, p.Position); err != nil {
			return err
		}
		f.from = [2]uint64{p.Position.GetCommitPosition(), p.Position.GetPreparePosition()}
		f.sent = f.from
	case *streams.ReadReq_Options_AllOptions_End:
		f.next = len(f.all)
	}
	if err := f.confirm(); err != nil {
		return err
	}
	for {
		if err := f.catchUp(); err != nil {
			return err
		}
		f.all, f.news = s.store.everything()
		if f.drops && f.tooSlow() {
			return errTooSlowForLive
		}
		if err := f.send(&streams.ReadResp{Content: &streams.ReadResp_CaughtUp_{CaughtUp: &streams.ReadResp_CaughtUp{}}}); err != nil {
			return err
		}
		if err := f.live(); !errors.Is(err, errTooSlow) || f.drops {
			return err
		}
		if err := f.send(&streams.ReadResp{Content: &streams.ReadResp_FellBehind_{FellBehind: &streams.ReadResp_FellBehind{}}}); err != nil {
			return err
		}
	}
}

// dropsSlow reports whether the server's version drops subscriptions that are too slow.
func (s *Server) dropsSlow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var major, minor int
	_, err := fmt.Sscanf(s.version, "%d.%d", &major, &minor)
	return err == nil && (major < 24 || major == 24 && minor < 2)
}

// tooSlow reports whether more events and checkpoints wait for the subscriber than the server buffers.
func (f *follower) tooSlow() bool {
	room, passed := f.server.cfg.LiveBuffer, uint32(0)
	if 2*(len(f.all)-f.next) <= room { // each event may have a checkpoint after it
		return false
	}
	for _, r := range f.all[f.next:] {
		if f.filter == nil || f.filter.allows(r) {
			room--
		}
		if passed++; f.filter != nil && passed%f.filter.interval == 0 {
			room--
		}
		if room < 0 {
			return true
		}
	}
	return false
}

// before reports whether a position is before an event's.
func before(p [2]uint64, r *record) bool {
	return p[0] < r.position || p[0] == r.position && p[1] < r.position
}

// confirm confirms the subscription. If confirmations are withheld, it waits.
func (f *follower) confirm() error {
	f.server.mu.Lock()
	withheld := f.server.withheld
	f.server.mu.Unlock()
	if withheld != nil {
		select {
		case <-withheld:
		case <-f.out.Context().Done():
			return f.out.Context().Err()
		}
	}
	return f.send(&streams.ReadResp{Content: &streams.ReadResp_Confirmation{
		Confirmation: &streams.ReadResp_SubscriptionConfirmation{SubscriptionId: uuid.NewString()},
	}})
}

func (f *follower) send(message any) error { return f.out.SendMsg(message) }

// catchUp reads the log in pages. A page examines at most as many events as the filter's window, and sends at most
// readBatch. It begins at the end of the previous page, which is a position before an event. A checkpoint is the
// position of the last event that was sent, or of the beginning of the page.
func (f *follower) catchUp() error {
	if f.filter == nil {
		return f.catchUpWithAll()
	}
	looked := uint32(0)
	for {
		// Events may have been appended meanwhile.
		f.all, f.news = f.server.store.everything()
		start := [2]uint64{f.server.store.end(f.all[:f.next]), 0}
		considered, full, err := f.page()
		if err != nil {
			return err
		}
		end := !full && f.next == len(f.all)
		if looked += considered; looked >= f.filter.interval || end {
			looked %= f.filter.interval
			if f.sent[0] < start[0] {
				f.sent = start
			}
			if f.sent != [2]uint64{} {
				if err := f.checkpoint(); err != nil {
					return err
				}
			}
		}
		if err := f.ended(); err != nil || end {
			return err
		}
	}
}

// catchUpWithAll is catchUp without a filter.
func (f *follower) catchUpWithAll() error {
	for end := false; !end; {
		f.all, f.news = f.server.store.everything()
		until := min(f.next+readBatch, len(f.all))
		end = until == len(f.all)
		for ; f.next < until; f.next++ {
			if err := f.deliver(f.all[f.next]); err != nil {
				return err
			}
		}
		if err := f.ended(); err != nil {
			return err
		}
	}
	return nil
}

// page sends the matching events of one page. full is true if the page ended because of a limit. The server then reads
// another page to find out whether it has reached the end.
func (f *follower) page() (considered uint32, full bool, err error) {
	for found := 0; f.next < len(f.all) && !full; f.next++ {
		r := f.all[f.next]
		considered++
		if f.filter.allows(r) {
			found++
			if err := f.deliver(r); err != nil {
				return considered, false, err
			}
		}
		full = found == readBatch || considered == f.filter.window
	}
	return considered, full, nil
}

// deliver sends an event. Unlike a read, a subscription omits the event at the position where it begins, unless that is
// a position before an event (prepare 0).
func (f *follower) deliver(r *record) error {
	if f.from != [2]uint64{} && !before(f.from, r) {
		return nil
	}
	f.sent = [2]uint64{r.position, r.position}
	f.server.sent.Add(1)
	return f.send(r)
}

func (f *follower) checkpoint() error {
	return f.send(&streams.ReadResp{Content: &streams.ReadResp_Checkpoint_{
		Checkpoint: &streams.ReadResp_Checkpoint{CommitPosition: f.sent[0], PreparePosition: f.sent[1]},
	}})
}

// live sends new events until the subscriber is too slow; then it returns errTooSlow. Here a checkpoint is the position
// of every interval-th event, whether it matches the filter or not.
func (f *follower) live() error {
	looked := uint32(0)
	for {
		if f.tooSlow() {
			f.server.slow.Add(1)
			return errTooSlow
		}
		for ; f.next < len(f.all); f.next++ {
			r := f.all[f.next]
			if f.filter == nil || f.filter.allows(r) {
				if err := f.deliver(r); err != nil {
					return err
				}
			}
			if f.filter == nil {
				continue
			}
			if looked++; looked >= f.filter.interval {
				looked = 0
				f.sent = [2]uint64{r.position, r.position}
				if err := f.checkpoint(); err != nil {
					return err
				}
			}
		}
		if err := f.wait(); err != nil {
			return err
		}
	}
}

// wait waits for more events.
func (f *follower) wait() error {
	select {
	case <-f.news:
		f.all, f.news = f.server.store.everything()
		return nil
	case <-f.dropped:
		f.drops = true
		return errTooSlow
	case <-f.out.Context().Done():
		return f.out.Context().Err()
	}
}

// The errors with which servers before 24.2 end subscriptions that are too slow.
var (
	errTooSlow        = status.Error(codes.Aborted, "Operation timed out: Consumer too slow to handle event while live. Client resubscription required.")
	errTooSlowForLive = status.Error(codes.Aborted, "Operation timed out: Consumer too slow to handle event while transitioning to live. Client resubscription required.")
)

// ended returns an error if the subscription has ended while it was catching up.
func (f *follower) ended() error {
	select {
	case <-f.dropped:
		return errTooSlowForLive
	case <-f.out.Context().Done():
		return f.out.Context().Err()
	default:
		return nil
	}
}

// subscribeStream sends the events of one stream after a revision.
func (s *Server) subscribeStream(options *streams.ReadReq_Options_StreamOptions, out streams.Streams_ReadServer) error {
	s.mu.Lock()
	f := &follower{server: s, out: out, dropped: s.dropped}
	s.mu.Unlock()
	name := string(options.GetStreamIdentifier().GetStreamName())
	_, f.news = s.store.everything()
	held := s.store.stream(name)
	switch r := options.GetRevisionOption().(type) {
	case *streams.ReadReq_Options_StreamOptions_Revision:
		f.next = int(min(r.Revision+1, uint64(len(held))))
	case *streams.ReadReq_Options_StreamOptions_End:
		f.next = len(held)
	}
	err := f.confirm()
	for caughtUp := false; err == nil; {
		for ; f.next < len(held) && err == nil; f.next++ {
			err = f.deliver(held[f.next])
		}
		if !caughtUp && err == nil {
			caughtUp = true
			err = f.send(&streams.ReadResp{Content: &streams.ReadResp_CaughtUp_{CaughtUp: &streams.ReadResp_CaughtUp{}}})
		}
		if err == nil {
			err = f.wait()
			held = s.store.stream(name)
		}
	}
	return err
}
