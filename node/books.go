package node

import (
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/workers/journal"
)

// PeriodCloser returns a Closer that acts for an operator. progress may be nil.
func (n *Node) PeriodCloser(progress journal.Progress) *journal.Closer {
	by := n.Operator()
	return &journal.Closer{Log: n.Log, Encoder: eventschemas.NewEncoder(n.Runner.Format), Now: n.clock.Now, Progress: progress,
		Metadata: eventlog.Metadata{RequestID: by.ID, Actor: by.Actor}}
}
