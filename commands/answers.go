package commands

import (
	"container/list"
	"time"

	"letterhead/eventschemas"
)

const (
	// maxAnswers bounds the domains, of some 200 bytes, that are known of one account to have been answered.
	maxAnswers = 256
	// answersFor is how long one is known: far longer than the tables of a node trail the log, but for a
	// projector that is down.
	answersFor = 5 * time.Minute
)

// answers knows which records an account was answered lately, by any node: its stream says so. Another
// node's tables, or its cache, may still hold an older record of a domain; as every charge is appended at
// the exact revision, whoever charges has seen what was charged before. It belongs to the actor's goroutine.
// Nil knows nothing. What a round that was rolled back noted stays: the record is there nevertheless.
//
// It knows the maxAnswers domains that were charged last, and of these only what this desk has folded: of an
// account that was taken from a snapshot, what followed the snapshot.
type answers struct {
	domains map[string]*list.Element
	order   list.List // of *answeredRecord, one for each domain, that which was charged longest ago first
}

type answeredRecord struct {
	domain   string
	revision uint64 // of the brand's stream, the newest that was charged
	// asked: a crawl was paid for after that, whose answer may have been free and is on the brand's stream only.
	asked bool
	at    time.Time
}

func newAnswers() *answers { return &answers{domains: map[string]*list.Element{}} }

// note looks at an event of the account's stream.
func (s *answers) note(ev eventschemas.Event, at time.Time) {
	if s == nil {
		return
	}
	switch ev := ev.(type) {
	case eventschemas.CreditsCharged:
		r := s.record(ev.Domain, at)
		r.revision, r.asked = max(r.revision, ev.RecordRevision), false
	case eventschemas.CreditsHeld:
		if ev.Domain != "" {
			s.record(ev.Domain, at).asked = true
		}
	}
}

// record returns the domain's record, which is the latest now, and forgets what is past the bounds.
func (s *answers) record(domain string, at time.Time) *answeredRecord {
	here, known := s.domains[domain]
	if known {
		s.order.MoveToBack(here)
	} else {
		here = s.order.PushBack(&answeredRecord{domain: domain})
		s.domains[domain] = here
	}
	r := recordIn(here)
	r.at = at
	for oldest := s.order.Front(); s.order.Len() > maxAnswers || at.Sub(recordIn(oldest).at) >= answersFor; oldest = s.order.Front() {
		delete(s.domains, recordIn(oldest).domain)
		s.order.Remove(oldest)
	}
	return r
}

func recordIn(e *list.Element) *answeredRecord { return e.Value.(*answeredRecord) }

// newer says that the account was answered, or asked for, a newer record of the domain than this one.
func (s *answers) newer(domain string, revision uint64, now time.Time) bool {
	if s == nil {
		return false
	}
	e, ok := s.domains[domain]
	if !ok {
		return false
	}
	r := recordIn(e)
	return now.Sub(r.at) < answersFor && (r.asked || r.revision > revision)
}
