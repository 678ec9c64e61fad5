package commands

import (
	"container/list"
	"time"

	"letterhead/eventschemas"
)

const (
	// maxAnswers limits the domains, of about 200 bytes each, that are remembered as answered per account.
	maxAnswers = 256
	// answersFor is how long a domain is remembered: far longer than the tables trail the log unless a projector is
	// down.
	answersFor = 5 * time.Minute
)

// answers remembers which records an account was recently answered with, by any node, from the account's stream.
// Another node's tables or cache may still have an older record of a domain; since every charge is appended at the
// exact revision, its writer has seen all charges before it. It belongs to the actor's goroutine. A nil answers
// remembers nothing. Notes of a round that was rolled back stay: the record exists nevertheless.
//
// It remembers the maxAnswers domains that were charged last, limited to events that this writer has
// folded: for an account loaded from a snapshot, the events after the snapshot.
type answers struct {
	domains map[string]*list.Element
	order   list.List // of *answeredRecord, one per domain, least recently charged first
}

type answeredRecord struct {
	domain   string
	revision uint64 // of the brand's stream, the newest charged
	// asked is set if a crawl was paid for after that: its answer may have been free and is then only
	// on the brand's stream.
	asked bool
	at    time.Time
}

func newAnswers() *answers { return &answers{domains: map[string]*list.Element{}} }

// note examines an event of the account's stream.
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

// record returns the domain's record, making it the latest, and drops records beyond the limits.
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

// newer reports whether the account was answered with, or requested, a newer record of the domain than this one.
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
