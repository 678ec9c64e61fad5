package esdbtest

import "sync"

// Fault is what the server does wrong in one call.
type Fault int

// Faults of appends.
const (
	// None: all goes well.
	None Fault = iota
	// LoseReply: the append is committed and the connection breaks before the answer.
	LoseReply
	// LoseRequest: the connection breaks before anything is committed.
	LoseRequest
	// EndEarly: the server ends the call in the middle of the request. The client reports EOF, without
	// the reason.
	EndEarly
	// Hang: nothing is committed and no answer comes, until the caller leaves.
	Hang
	// CommitAndHang: the append is committed and no answer comes, until the caller leaves.
	CommitAndHang
	// TimeOut: the append is committed, and the server says that it timed out.
	TimeOut
	// NotReady: the server says that it is not ready, nothing is committed.
	NotReady
	// NoPosition: the answer has no position.
	NoPosition
	// Duplicate: the request arrives twice, and the second one's answer is given.
	Duplicate
	// NotLeader: the server says that it does not lead, and names the node that does.
	NotLeader
	// Deleted: the server says that the stream was deleted.
	Deleted
	// Drop: nothing is committed, and the server says that it timed out after its time.
	Drop
)

// Faults of reads.
const (
	// BreakRead: the connection breaks after the first event.
	BreakRead Fault = iota + 100
	// Surprise: a message that the client does not know in this place, on which it panics.
	Surprise
	// HangRead: nothing comes, until the caller leaves.
	HangRead
)

// Faults are the faults to come. Each is used up by one call, in order.
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

// Read queues faults for the next reads: not subscriptions, nor reads of one event, with which a client may
// try its connection at any time.
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
