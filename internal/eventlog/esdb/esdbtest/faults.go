package esdbtest

import "sync"

// Fault is a fault of one call.
type Fault int

// Faults of appends.
const (
	// None means no fault.
	None Fault = iota
	// LoseReply commits the append and resets the connection before the answer.
	LoseReply
	// LoseRequest resets the connection before anything is committed.
	LoseRequest
	// EndEarly ends the call in the middle of the request. The client reports EOF without the reason.
	EndEarly
	// Hang commits nothing and does not answer until the caller cancels.
	Hang
	// CommitAndHang commits the append and does not answer until the caller cancels.
	CommitAndHang
	// TimeOut commits the append and answers that it timed out.
	TimeOut
	// NotReady commits nothing and answers that the server is not ready.
	NotReady
	// NoPosition omits the position in the answer.
	NoPosition
	// Duplicate handles the request twice and returns the second answer.
	Duplicate
	// NotLeader commits nothing and answers with the name of the leader.
	NotLeader
	// Deleted commits nothing and answers that the stream was deleted.
	Deleted
	// Drop commits nothing and answers after the server's timeout that the append timed out.
	Drop
	// Silence commits nothing, and no append of its call is answered any more. It is a fault of BatchAppend.
	Silence
)

// Faults of reads.
const (
	// BreakRead resets the connection after the first event.
	BreakRead Fault = iota + 100
	// Surprise sends a message that the client does not expect, which makes it panic.
	Surprise
	// HangRead sends nothing until the caller cancels.
	HangRead
)

// Faults are queued faults. Each call uses one of them, in order.
type Faults struct {
	mu      sync.Mutex
	appends []Fault
	reads   []Fault
}

// Append queues faults for the next appends.
func (f *Faults) Append(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.appends = append(f.appends, faults...)
}

// Read queues faults for the next reads. It does not affect subscriptions, or reads of a single event, with which a
// client may check its connection at any time.
func (f *Faults) Read(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, faults...)
}

func (f *Faults) nextAppend() Fault { return f.take(&f.appends) }

func (f *Faults) nextRead() Fault { return f.take(&f.reads) }

func (f *Faults) take(from *[]Fault) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(*from) == 0 {
		return None
	}
	fault := (*from)[0]
	*from = (*from)[1:]
	return fault
}
