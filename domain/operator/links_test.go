package operator_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// hash returns a text of the form of a hash that only the text determines.
func hash(text string) string { return fmt.Sprintf("%064x", text) }

// scenario is a stream of operators with the outcome of the last command.
type scenario struct {
	t      testing.TB
	tokens *operator.Tokens
	now    time.Time
	events []eventschemas.Event
	err    error
}

func given(t testing.TB) *scenario { return &scenario{t: t, tokens: operator.New(), now: now} }

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
		s.tokens.Apply(ev)
	}
	return s
}

func (s *scenario) link(id string, scope operator.Scope) *scenario {
	s.t.Helper()
	return s.decided(s.tokens.IssueLink(operator.IssueLink{LinkID: id, Hash: hash(id), Scope: scope, Now: s.now}))
}

func (s *scenario) enter(link, token string) *scenario {
	s.t.Helper()
	return s.decided(s.tokens.Enter(operator.Enter{LinkID: link, LinkHash: hash(link), Hash: hash(token), Last4: "9c0Z", Now: s.now}))
}

func (s *scenario) issue(id string, lifetime time.Duration) *scenario {
	s.t.Helper()
	return s.decided(s.tokens.Issue(operator.Issue{TokenID: id, Hash: hash(id), Last4: "9c0Z", Scope: operator.Read, ExpiresAt: s.now.Add(lifetime), Now: s.now}))
}

func (s *scenario) revoke(id string) *scenario {
	s.t.Helper()
	return s.decided(s.tokens.Revoke(id))
}

func (s *scenario) then(events ...eventschemas.Event) *scenario {
	s.t.Helper()
	if s.err != nil || len(s.events) != len(events) {
		s.t.Fatalf("events %+v, %v; want %+v", s.events, s.err, events)
	}
	for i := range events {
		got, _ := eventschemas.Encode(s.events[i])
		want, err := eventschemas.Encode(events[i])
		if err != nil || got.Type != want.Type || string(got.Data) != string(want.Data) {
			s.t.Fatalf("event %s %s; want %s %s: %v", got.Type, got.Data, want.Type, want.Data, err)
		}
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

func TestEnter_Link_WorksOnceWithinItsTime(t *testing.T) {
	ends := now.Add(time.Minute + 12*time.Hour)
	given(t).
		link("l1", operator.Support).then(eventschemas.OperatorLinkIssued{LinkID: "l1", Hash: hash("l1"), Scope: "support", ExpiresAt: now.Add(15 * time.Minute)}).
		after(time.Minute).enter("l1", "t1").
		then(eventschemas.OperatorTokenIssued{TokenID: "l1", Hash: hash("t1"), Last4: "9c0Z", Scope: "support", ExpiresAt: &ends}).
		enter("l1", "t2").rejected(operator.ErrLinkUsed).
		enter("l2", "t2").rejected(operator.ErrUnknownLink).
		after(operator.SessionLifetime).enter("l1", "t2").rejected(operator.ErrLinkUsed)
	given(t).link("l1", operator.Admin).after(operator.LinkLifetime-time.Microsecond).enter("l1", "t1")
	given(t).link("l1", operator.Admin).after(operator.LinkLifetime).enter("l1", "t1").rejected(operator.ErrLinkExpired)
	given(t).link("l1", operator.Admin).enter("l1", "t1").revoke("l1").then(eventschemas.OperatorTokenRevoked{TokenID: "l1"}).
		enter("l1", "t2").rejected(operator.ErrLinkUsed)
}

func TestLinks_Repeats_HaveNoEvents(t *testing.T) {
	given(t).link("l1", operator.Read).link("l1", operator.Read).then().
		enter("l1", "t1").after(operator.LinkLifetime).enter("l1", "t1").then()
}

func TestLinks_BadCommand_IsRejected(t *testing.T) {
	s := given(t).link("l1", "owner").rejected(operator.ErrInvalid).link("", operator.Read).rejected(operator.ErrInvalid)
	s.decided(s.tokens.IssueLink(operator.IssueLink{LinkID: "l1", Hash: "x", Scope: operator.Read, Now: s.now})).rejected(operator.ErrInvalid)
	s.link("l1", operator.Read)
	s.decided(s.tokens.IssueLink(operator.IssueLink{LinkID: "l1", Hash: hash("other"), Scope: operator.Read, Now: s.now})).rejected(operator.ErrInvalid)
	s.decided(s.tokens.Enter(operator.Enter{LinkID: "l1", LinkHash: hash("other"), Hash: hash("t1"), Last4: "9c0Z", Now: s.now})).rejected(operator.ErrUnknownLink)
	s.decided(s.tokens.Enter(operator.Enter{LinkID: "l1", LinkHash: hash("l1"), Hash: "x", Last4: "9c0Z", Now: s.now})).rejected(operator.ErrInvalid)
	s.enter("l1", "t1")
	if s.err != nil {
		t.Error(s.err)
	}
}

func TestLinks_Limit_CountsThoseThatCanBeUsed(t *testing.T) {
	s := given(t)
	for i := range operator.MaxOpenLinks {
		s.link(fmt.Sprint("l", i), operator.Read)
	}
	s.link("more", operator.Read).rejected(operator.ErrTooManyLinks).
		enter("l0", "t0").link("more", operator.Read).
		link("another", operator.Read).rejected(operator.ErrTooManyLinks).
		after(operator.LinkLifetime).link("another", operator.Read)
	if s.err != nil {
		t.Fatal(s.err)
	}
	lapsed := s.tokens.Lapsed(s.now)
	if slices.Contains(lapsed, "l0") || slices.Contains(lapsed, "another") || len(lapsed) != operator.MaxOpenLinks {
		t.Errorf("lapsed: %v", lapsed)
	}
}

func TestLapsed_ManyLinks_AreTheNewest(t *testing.T) {
	s := given(t)
	for i := range operator.MaxLapsed + 3 {
		s.link(fmt.Sprintf("l%03d", i), operator.Read).after(operator.LinkLifetime)
	}
	lapsed := s.tokens.Lapsed(s.now)
	if len(lapsed) != operator.MaxLapsed || lapsed[0] != fmt.Sprintf("l%03d", operator.MaxLapsed+2) || slices.Contains(lapsed, "l002") || !slices.Contains(lapsed, "l003") {
		t.Errorf("%d lapsed links: %v", len(lapsed), lapsed)
	}
}

func TestTokens_Limit_DoesNotCountExpired(t *testing.T) {
	s := given(t).link("l1", operator.Read)
	for i := range operator.MaxTokens {
		s.issue(fmt.Sprint("t", i), time.Minute)
	}
	s.enter("l1", "more").rejected(operator.ErrTooManyTokens).
		issue("more", time.Minute).rejected(operator.ErrTooManyTokens).
		after(time.Minute).enter("l1", "more").issue("another", time.Minute)
	if s.err != nil {
		t.Errorf("after the tokens have expired: %v", s.err)
	}
}

// TestLinks_AnyCommands_KeepPromises compares what happens with the promises of links.
// Rule 9.
func TestLinks_AnyCommands_KeepPromises(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := given(t)
		type issued struct {
			scope operator.Scope
			at    time.Time
		}
		links := map[string]issued{}
		begun := map[string]string{} // the token of each link that was used
		for i := range rapid.IntRange(1, 60).Draw(r, "commands") {
			s.now = s.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(r, "pause") >> rapid.IntRange(0, 30).Draw(r, "scale")))
			id := fmt.Sprint("l", rapid.IntRange(0, len(links)).Draw(r, "link")) // the last does not exist
			switch rapid.SampledFrom([]string{"link", "enter", "enter", "revoke"}).Draw(r, "command") {
			case "link":
				id, scope := fmt.Sprint("l", len(links)), rapid.SampledFrom(operator.Scopes).Draw(r, "scope")
				if s.link(id, scope); s.err == nil {
					links[id] = issued{scope, s.now}
				}
			case "enter":
				token := fmt.Sprint("t", i)
				l, known := links[id]
				before, used := begun[id]
				if used && rapid.Bool().Draw(r, "again") {
					token = before
				}
				s.enter(id, token)
				switch {
				case !known && !errors.Is(s.err, operator.ErrUnknownLink):
					r.Fatalf("unknown link %s: %+v, %v", id, s.events, s.err)
				case used && before == token && (s.err != nil || len(s.events) > 0):
					r.Fatalf("link %s again with its token: %+v, %v", id, s.events, s.err)
				case used && before != token && !errors.Is(s.err, operator.ErrLinkUsed):
					r.Fatalf("link %s with a second token: %+v, %v", id, s.events, s.err)
				case known && !used && (s.err == nil) != (s.now.Sub(l.at) < operator.LinkLifetime):
					r.Fatalf("link %s after %s: %+v, %v", id, s.now.Sub(l.at), s.events, s.err)
				}
				for _, ev := range s.events {
					in := ev.(eventschemas.OperatorTokenIssued)
					if operator.Scope(in.Scope) != l.scope || in.ExpiresAt.Sub(s.now) > operator.SessionLifetime {
						r.Fatalf("link %+v began %+v", l, in)
					}
					begun[id] = token
				}
			case "revoke":
				if s.revoke(id); (s.err == nil) != (begun[id] != "") {
					r.Fatalf("revoke %s: %v", id, s.err)
				}
			}
		}
		for id := range links {
			if slices.Contains(s.tokens.Lapsed(s.now), id) == (begun[id] != "" || s.now.Sub(links[id].at) < operator.LinkLifetime) {
				r.Fatalf("link %s is in %v", id, s.tokens.Lapsed(s.now))
			}
		}
	})
}
