package signin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/signin"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// hash returns a text of the form of a hash that only the token determines.
func hash(token string) string { return fmt.Sprintf("%064x", token) }

// scenario is a stream of sign-ins with the outcome of the last command.
type scenario struct {
	t      testing.TB
	state  *signin.State
	now    time.Time
	events []eventschemas.Event
	err    error
}

func given(t testing.TB) *scenario {
	return &scenario{t: t, state: signin.New("a"), now: start}
}

func (s *scenario) after(d time.Duration) *scenario {
	s.now = s.now.Add(d)
	return s
}

func (s *scenario) decided(events []eventschemas.Event, err error) *scenario {
	s.t.Helper()
	s.events, s.err = events, err
	for _, ev := range events {
		encoded := testmust.Get(eventschemas.Encode(ev))(s.t)
		testmust.Succeed(s.t, eventschemas.ValidateJSON(encoded.Type, encoded.SchemaVersion, encoded.Data))
		s.state.Apply(ev, s.now)
	}
	return s
}

func (s *scenario) issue(link, person string) *scenario {
	s.t.Helper()
	return s.decided(s.state.IssueLink(signin.IssueLink{LinkID: link, Hash: hash(link), Person: person, Now: s.now}))
}

func (s *scenario) enter(link, session string) *scenario {
	s.t.Helper()
	return s.decided(s.state.Enter(signin.Enter{LinkHash: hash(link), SessionID: session, SessionHash: hash(session), Now: s.now}))
}

func (s *scenario) signOut(session string) *scenario {
	s.t.Helper()
	return s.decided(s.state.SignOut(session, s.now), nil)
}

func (s *scenario) signOutEverywhere(person string) *scenario {
	s.t.Helper()
	return s.decided(s.state.SignOutEverywhere(person, s.now))
}

func (s *scenario) then(events ...eventschemas.Event) *scenario {
	s.t.Helper()
	if s.err != nil || fmt.Sprint(s.events) != fmt.Sprint(events) {
		s.t.Fatalf("events %+v, %v; want %+v", s.events, s.err, events)
	}
	return s
}

func (s *scenario) rejected(want error) *scenario {
	s.t.Helper()
	if !errors.Is(s.err, want) || len(s.events) > 0 {
		s.t.Fatalf("events %+v, %v; want %v", s.events, s.err, want)
	}
	return s
}

func (s *scenario) open(want ...string) *scenario {
	s.t.Helper()
	for _, id := range []string{"s1", "s2", "s3"} {
		_, open := s.state.Session(id, s.now)
		if wanted := strings.Contains(strings.Join(want, " "), id); open != wanted {
			s.t.Fatalf("session %s is open: %t, want %t", id, open, wanted)
		}
	}
	return s
}

func TestEnter_Link_WorksOnceWithinItsTime(t *testing.T) {
	given(t).
		issue("l1", "owner").then(eventschemas.SignInLinkIssued{LinkID: "l1", Hash: hash("l1"), Person: "owner", ExpiresAt: start.Add(15 * time.Minute)}).
		after(time.Minute).enter("l1", "s1").
		then(eventschemas.SignedIn{SessionID: "s1", LinkID: "l1", Hash: hash("s1"), Person: "owner", ExpiresAt: start.Add(time.Minute + 7*24*time.Hour)}).
		open("s1").
		enter("l1", "s2").rejected(signin.ErrLinkUsed).
		enter("l2", "s2").rejected(signin.ErrUnknownLink)
	given(t).issue("l1", "owner").after(signin.LinkLifetime-time.Microsecond).enter("l1", "s1").open("s1")
	given(t).issue("l1", "owner").after(signin.LinkLifetime).enter("l1", "s1").rejected(signin.ErrLinkExpired).open()
}

func TestSession_EndsByItselfAndBySigningOut(t *testing.T) {
	given(t).issue("l1", "owner").enter("l1", "s1").
		after(signin.SessionLifetime - time.Microsecond).open("s1").
		after(time.Microsecond).open().signOut("s1").then()
	given(t).issue("l1", "owner").enter("l1", "s1").issue("l2", "owner").enter("l2", "s2").
		signOut("s1").then(eventschemas.SignedOut{SessionID: "s1"}).open("s2").
		signOut("s1").then().
		signOut("unknown").then()
}

func TestSignOutEverywhere_EndsSessionsAndLinks(t *testing.T) {
	two := func() *scenario {
		return given(t).issue("l1", "owner").enter("l1", "s1").issue("l2", "p2").enter("l2", "s2").issue("l3", "p2")
	}
	two().signOutEverywhere("p2").then(eventschemas.SignedOutEverywhere{Person: "p2"}).open("s1").
		enter("l3", "s3").rejected(signin.ErrLinkExpired).
		signOutEverywhere("p2").then()
	two().signOutEverywhere("owner").then(eventschemas.SignedOutEverywhere{Person: "owner"}).open("s2").
		enter("l3", "s3").open("s2", "s3")
	two().signOutEverywhere("").then(eventschemas.SignedOutEverywhere{}).open().
		enter("l3", "s3").rejected(signin.ErrLinkExpired).
		issue("l4", "owner").enter("l4", "s3").open("s3")
	given(t).issue("l1", "owner").signOutEverywhere("").then(eventschemas.SignedOutEverywhere{})
	given(t).signOutEverywhere("").then()
	given(t).signOutEverywhere("Jane Doe").rejected(signin.ErrInvalid)
}

func TestRepeats_HaveNoEvents(t *testing.T) {
	given(t).issue("l1", "owner").issue("l1", "owner").then().enter("l1", "s1").enter("l1", "s1").then().open("s1")
}

func TestBadCommand_IsRejected(t *testing.T) {
	for _, person := range []string{"", "-", "Jane", "jane@example.com", "jane doe", "jané", "-p", strings.Repeat("a", signin.MaxPersonBytes+1)} {
		given(t).issue("l1", person).rejected(signin.ErrInvalid)
	}
	given(t).issue("l1", strings.Repeat("a", signin.MaxPersonBytes)).issue("", "owner").rejected(signin.ErrInvalid).
		enter("l1", "").rejected(signin.ErrInvalid)
	s := given(t)
	s.decided(s.state.IssueLink(signin.IssueLink{LinkID: "l1", Hash: "x", Person: "owner", Now: s.now})).rejected(signin.ErrInvalid)
	s.issue("l1", "owner").
		decided(s.state.Enter(signin.Enter{LinkHash: hash("l1"), SessionID: "s1", SessionHash: "x", Now: s.now})).rejected(signin.ErrInvalid)
}

func TestLimits_CountWhatIsOpen(t *testing.T) {
	s := given(t)
	for i := range signin.MaxOpenLinks {
		s.issue(fmt.Sprint("l", i), "owner")
	}
	s.issue("more", "p2").rejected(signin.ErrTooManyLinks).
		enter("l0", "s1").issue("more", "p2").enter("more", "s2").open("s1", "s2").
		after(signin.LinkLifetime)
	for i := range signin.MaxSessions - 2 {
		s.issue(fmt.Sprint("m", i), "owner").enter(fmt.Sprint("m", i), fmt.Sprint("more", i))
		if s.err != nil {
			t.Fatal(s.err)
		}
	}
	s.issue("last", "owner").enter("last", "s3").rejected(signin.ErrTooManySessions).
		signOut("s1").enter("last", "s3").open("s2", "s3")
}

func TestLimits_OfLinksByEmail_LeaveSomeForOthers(t *testing.T) {
	s := given(t)
	links := 0
	mailed := func(person string) *scenario {
		t.Helper()
		links++
		link := fmt.Sprint("l", links)
		return s.decided(s.state.IssueLink(signin.IssueLink{LinkID: link, Hash: hash(link), Person: person, Mailed: true, Now: s.now}))
	}
	accepted := func(s *scenario) {
		t.Helper()
		if s.err != nil {
			t.Fatal(s.err)
		}
	}
	for range signin.MaxOpenOfPerson {
		accepted(mailed("owner"))
	}
	mailed("owner").rejected(signin.ErrTooManyLinks)
	for i := range signin.MaxOpenMailed - signin.MaxOpenOfPerson {
		accepted(mailed(fmt.Sprint("p", i)))
	}
	mailed("other").rejected(signin.ErrTooManyLinks)
	accepted(s.issue("by an operator", "other"))

	// Each link is used up or expires, and the day has as many as it may have.
	s = given(t)
	for range signin.MaxMailedLinks {
		accepted(mailed("owner"))
		s.after(signin.LinkLifetime)
	}
	mailed("owner").rejected(signin.ErrTooManyLinks)
	accepted(mailed("p2"))
	accepted(s.issue("by an operator", "owner"))
	s.after(signin.MailedWithin)
	accepted(mailed("owner"))
}

// TestSignIns_AnyCommands_KeepPromises compares the state with the promises of sign-ins, and with a state that is folded
// from the relevant events only.
// Rule 9.
func TestSignIns_AnyCommands_KeepPromises(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := given(t)
		type recorded struct {
			event eventschemas.Event
			at    time.Time
		}
		var stream []recorded
		var sessions []string
		links := 0
		began := map[string]string{} // the link that began each session
		ended := map[string]bool{}   // sessions that were ended
		people := map[string]string{}
		link := func() string { return fmt.Sprint("l", rapid.IntRange(0, max(links, 1)-1).Draw(r, "link")) }
		person := rapid.SampledFrom([]string{"owner", "p2"})
		for range rapid.IntRange(1, 60).Draw(r, "commands") {
			s.now = s.now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(r, "pause") >> rapid.IntRange(0, 30).Draw(r, "scale")))
			switch rapid.SampledFrom([]string{"issue", "issue", "enter", "enter", "enter", "out", "everywhere"}).Draw(r, "command") {
			case "issue":
				if s.issue(fmt.Sprint("l", links), person.Draw(r, "person")); s.err == nil {
					links++
				}
			case "enter":
				id := fmt.Sprint("session", len(sessions))
				l := link()
				if s.enter(l, id); s.err == nil {
					for _, other := range began {
						if other == l {
							r.Fatalf("link %s began two sessions", l)
						}
					}
					sessions, began[id], people[id] = append(sessions, id), l, s.events[0].(eventschemas.SignedIn).Person
				}
			case "out":
				if len(sessions) > 0 {
					id := rapid.SampledFrom(sessions).Draw(r, "session")
					s.signOut(id)
					ended[id] = true
				}
			case "everywhere":
				whom := rapid.SampledFrom([]string{"", "owner", "p2"}).Draw(r, "whom")
				s.signOutEverywhere(whom)
				for _, id := range sessions {
					ended[id] = ended[id] || whom == "" || whom == people[id]
				}
				for i := range links {
					if _, err := s.state.Enter(signin.Enter{LinkHash: hash(fmt.Sprint("l", i)), SessionID: "none", SessionHash: hash("none"), Now: s.now}); err == nil && whom == "" {
						r.Fatalf("link l%d can be used after all have signed out everywhere", i)
					}
				}
			}
			for _, ev := range s.events {
				stream = append(stream, recorded{ev, s.now})
			}
			s.events = nil
			recent := signin.New("a")
			for _, e := range stream {
				if s.now.Sub(e.at) <= signin.Relevant {
					recent.Apply(e.event, e.at)
				}
			}
			for _, id := range sessions {
				was, open := s.state.Session(id, s.now)
				if open && ended[id] {
					r.Fatalf("session %s is open after it was ended", id)
				}
				if open && s.now.Sub(was.StartedAt) >= signin.SessionLifetime {
					r.Fatalf("session %s is open after %s", id, s.now.Sub(was.StartedAt))
				}
				if got, also := recent.Session(id, s.now); also != open || open && got != was {
					r.Fatalf("session %s from the relevant events: %+v, %t; want %+v, %t", id, got, also, was, open)
				}
			}
			for i := range links {
				in := signin.Enter{LinkHash: hash(fmt.Sprint("l", i)), SessionID: "none", SessionHash: hash("none"), Now: s.now}
				_, err := s.state.Enter(in)
				_, also := recent.Enter(in)
				if (err == nil) != (also == nil) {
					r.Fatalf("link l%d from the relevant events: %v, want %v", i, also, err)
				}
			}
		}
	})
}
