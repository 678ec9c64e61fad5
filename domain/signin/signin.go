// Package signin decides about the sign-ins of an account's people: links that begin a session, once, and sessions that
// end without a command. Tokens of links and sessions are kept as hashes. A person is an opaque id, because events are
// kept forever and must not have personal data.
package signin

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"letterhead/eventschemas"
)

// Limits of sign-ins.
const (
	// LinkLifetime is how long a link can be used.
	LinkLifetime = 15 * time.Minute
	// SessionLifetime is how long a session lasts unless it is ended. Using it does not extend it.
	SessionLifetime = 7 * 24 * time.Hour
	// MaxOpenLinks limits the links of an account that can be used.
	MaxOpenLinks = 20
	// Limits of links that can be requested by e-mail, which strangers can do, too. Those that an operator issues
	// count.
	//
	// MaxMailedLinks is the number of links of a person in MailedWithin from which on no more are sent.
	MaxMailedLinks = 20
	// MaxOpenOfPerson and MaxOpenMailed are the numbers of links of a person, and of an account, that can be used from
	// which on no more are sent, so that people do not use up each other's links, and operators can still issue some.
	MaxOpenOfPerson, MaxOpenMailed = 5, 15
	// MailedWithin is how long a link counts for MaxMailedLinks.
	MailedWithin = 24 * time.Hour
	// MaxSessions limits the open sessions of an account.
	MaxSessions = 100
	// MaxEmails limits the people of an account with an e-mail address.
	MaxEmails = 20
	// MaxPersonBytes limits the id of a person.
	MaxPersonBytes = 64
)

// Relevant is how far back the events of a stream matter: older links and sessions have expired. It must not be less
// than the lifetime of any link or session, of earlier releases too.
const Relevant = SessionLifetime

// Owner is the person of an account for which no other one is named.
const Owner = "owner"

// Errors of decisions. A rejected command results in no event.
var (
	// ErrInvalid means that the command is malformed.
	ErrInvalid = errors.New("invalid sign-in")
	// ErrUnknownLink means that the account has no such link, or had it longer ago than Relevant.
	ErrUnknownLink = errors.New("no such sign-in link")
	// ErrLinkExpired means that the link was not used in time, or that SignOutEverywhere came before.
	ErrLinkExpired = errors.New("the sign-in link has expired")
	// ErrLinkUsed means that the link has begun a session before.
	ErrLinkUsed = errors.New("the sign-in link was used before")
	// ErrTooManyLinks means that a limit of links is reached.
	ErrTooManyLinks = errors.New("too many sign-in links")
	// ErrTooManyEmails means that MaxEmails people of the account have an e-mail address.
	ErrTooManyEmails = errors.New("too many e-mail addresses")
	// ErrTooManySessions means that MaxSessions are open.
	ErrTooManySessions = errors.New("too many sessions")
)

// Stream returns the name of the stream of an account's sign-ins. It is not the stream that decides credits, so that
// neither waits for the other.
func Stream(accountID string) string { return eventschemas.SignInsPrefix + accountID }

// CheckPerson returns ErrInvalid if a text cannot be the id of a person. Names and e-mail addresses cannot.
func CheckPerson(person string) error {
	outside := func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }
	if person == "" || len(person) > MaxPersonBytes || person[0] == '-' || strings.ContainsFunc(person, outside) {
		return fmt.Errorf(
			"%w: the field person is an id of 1 to %d lower-case letters, digits and hyphens, such as owner "+
				"or p2; it is stored forever, so it must not be a name or an address", ErrInvalid, MaxPersonBytes)
	}
	return nil
}

// Person is a person of an account.
type Person struct{ AccountID, ID string }

// Session is a session of a person. Its token is not known.
type Session struct {
	ID        string
	AccountID string
	Person    string
	StartedAt time.Time
	ExpiresAt time.Time
}

// Open reports whether the session is accepted at a time, unless it was ended.
func (s *Session) Open(at time.Time) bool { return at.Before(s.ExpiresAt) }

type link struct {
	hash, person string
	expires      time.Time
	session      string // that it has begun; empty if it was not used
	withdrawn    bool
}

func (l *link) open(at time.Time) bool {
	return l.session == "" && !l.withdrawn && at.Before(l.expires)
}

// State is the state of the stream of an account's sign-ins.
type State struct {
	account  string
	links    map[string]*link   // by id
	sessions map[string]Session // that were not ended, by id
}

// New returns the state before the first event.
func New(accountID string) *State {
	return &State{account: accountID, links: map[string]*link{}, sessions: map[string]Session{}}
}

// Apply applies an event of the stream, which has a time. Events that are older than Relevant may be left out.
func (s *State) Apply(ev eventschemas.Event, at time.Time) {
	switch ev := ev.(type) {
	case eventschemas.SignInLinkIssued:
		s.links[ev.LinkID] = &link{hash: ev.Hash, person: ev.Person, expires: ev.ExpiresAt}
	case eventschemas.SignedIn:
		if l := s.links[ev.LinkID]; l != nil {
			l.session = ev.SessionID
		}
		s.sessions[ev.SessionID] = Session{ID: ev.SessionID, AccountID: s.account, Person: ev.Person, StartedAt: at,
			ExpiresAt: ev.ExpiresAt}
	case eventschemas.SignedOut:
		delete(s.sessions, ev.SessionID)
	case eventschemas.SignedOutEverywhere:
		for _, l := range s.links {
			l.withdrawn = l.withdrawn || concerns(ev.Person, l.person)
		}
		for id, session := range s.sessions {
			if concerns(ev.Person, session.Person) {
				delete(s.sessions, id)
			}
		}
	}
}

// concerns reports whether signing out everywhere, of a person or of all people if that is empty, is about a person.
func concerns(whom, person string) bool { return whom == "" || whom == person }

// IssueLink is the command to make a link valid.
type IssueLink struct {
	LinkID string
	Hash   string // hex SHA-256
	Person string
	// Mailed reports whether the link is sent by e-mail.
	Mailed bool
	Now    time.Time
}

// IssueLink makes a link valid for LinkLifetime. The same link again is a repeat, which has no events. Errors:
// ErrInvalid, ErrTooManyLinks.
func (s *State) IssueLink(in IssueLink) ([]eventschemas.Event, error) {
	if in.LinkID == "" || len(in.Hash) != 64 {
		return nil, fmt.Errorf("%w: the link has no id or no hash", ErrInvalid)
	}
	if err := CheckPerson(in.Person); err != nil {
		return nil, err
	}
	if known := s.links[in.LinkID]; known != nil && known.hash == in.Hash {
		return nil, nil
	}
	open, openOfPerson, recent := 0, 0, 0
	for _, l := range s.links {
		same := l.person == in.Person
		if l.open(in.Now) {
			open++
			if same {
				openOfPerson++
			}
		}
		if same && in.Now.Sub(l.expires.Add(-LinkLifetime)) < MailedWithin {
			recent++
		}
	}
	switch {
	case in.Mailed && recent >= MaxMailedLinks:
		return nil, fmt.Errorf("%w: %d of this person were issued within %d hours, and no more are sent by e-mail",
			ErrTooManyLinks, recent, MailedWithin/time.Hour)
	case in.Mailed && (openOfPerson >= MaxOpenOfPerson || open >= MaxOpenMailed):
		return nil, fmt.Errorf(
			"%w: %d of this person, and %d of this account, were not used yet, and no more are sent by e-mail",
			ErrTooManyLinks, openOfPerson, open)
	case open >= MaxOpenLinks:
		return nil, fmt.Errorf(
			"%w: %d of this account were not used yet; use one of them, or wait %d minutes until they have expired",
			ErrTooManyLinks, open, LinkLifetime/time.Minute)
	}
	return []eventschemas.Event{eventschemas.SignInLinkIssued{LinkID: in.LinkID, Hash: in.Hash, Person: in.Person,
		ExpiresAt: until(in.Now, LinkLifetime)}}, nil
}

// Enter is the command to begin a session with a link.
type Enter struct {
	LinkHash    string // hex SHA-256
	SessionID   string
	SessionHash string // hex SHA-256
	Now         time.Time
}

// Enter uses a link up and begins a session of SessionLifetime. The same session again is a repeat, which has no
// events. Errors: ErrInvalid, ErrUnknownLink, ErrLinkUsed, ErrLinkExpired, ErrTooManySessions.
func (s *State) Enter(in Enter) ([]eventschemas.Event, error) {
	if in.SessionID == "" || len(in.SessionHash) != 64 {
		return nil, fmt.Errorf("%w: the session has no id or no hash", ErrInvalid)
	}
	id, l := s.find(in.LinkHash)
	switch {
	case l == nil:
		return nil, ErrUnknownLink
	case l.session == in.SessionID:
		return nil, nil
	case l.session != "":
		return nil, ErrLinkUsed
	case !l.open(in.Now):
		return nil, ErrLinkExpired
	}
	if open := s.openSessions(in.Now); open >= MaxSessions {
		return nil, fmt.Errorf("%w: %d are open; sign out everywhere in one of them", ErrTooManySessions, open)
	}
	return []eventschemas.Event{eventschemas.SignedIn{SessionID: in.SessionID, LinkID: id, Hash: in.SessionHash,
		Person: l.person, ExpiresAt: until(in.Now, SessionLifetime)}}, nil
}

// find returns the link with a hash, or nil.
func (s *State) find(hash string) (id string, _ *link) {
	for id, l := range s.links {
		if l.hash == hash {
			return id, l
		}
	}
	return "", nil
}

func (s *State) openSessions(at time.Time) int {
	open := 0
	for _, session := range s.sessions {
		if session.Open(at) {
			open++
		}
	}
	return open
}

// until returns when something of a lifetime that begins now ends, as events have times.
func until(now time.Time, lifetime time.Duration) time.Time {
	return now.Add(lifetime).UTC().Truncate(time.Microsecond)
}

// Session returns an open session, and reports whether there is one.
func (s *State) Session(id string, now time.Time) (Session, bool) {
	session, ok := s.sessions[id]
	return session, ok && session.Open(now)
}

// SignOut ends a session. A session that is not open is a repeat, which has no events.
func (s *State) SignOut(sessionID string, now time.Time) []eventschemas.Event {
	if _, open := s.Session(sessionID, now); !open {
		return nil
	}
	return []eventschemas.Event{eventschemas.SignedOut{SessionID: sessionID}}
}

// SignOutEverywhere ends all sessions, and withdraws all links that were not used, of a person, or of all people if
// there is none. If there is nothing to end it is a repeat, which has no events. Errors: ErrInvalid.
func (s *State) SignOutEverywhere(person string, now time.Time) ([]eventschemas.Event, error) {
	if person != "" {
		if err := CheckPerson(person); err != nil {
			return nil, err
		}
	}
	open := false
	for _, l := range s.links {
		open = open || concerns(person, l.person) && l.open(now)
	}
	for _, session := range s.sessions {
		open = open || concerns(person, session.Person) && session.Open(now)
	}
	if !open {
		return nil, nil
	}
	return []eventschemas.Event{eventschemas.SignedOutEverywhere{Person: person}}, nil
}
