package commands

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/domain/signin"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/eventlog"
)

// tokenBytes is the number of random bytes of a token of a link or a session.
const tokenBytes = 32

// SignIns implements the use cases of sign-ins. Each command folds the relevant end of the account's stream of
// sign-ins, decides, and appends at the revision that it folded. It is safe for concurrent use.
type SignIns struct {
	coldStreams
	accounts *AccountWriter
	names    *accountnames.Table
}

// NewSignIns returns the commands for a log. events is as in AccountWriterConfig.
func NewSignIns(log eventlog.Log, events eventschemas.Encoder, now func() time.Time, accounts *AccountWriter,
	names *accountnames.Table) *SignIns {
	return &SignIns{coldStreams{log, events, now}, accounts, names}
}

// Session is a session that has just begun.
type Session struct {
	signin.Session
	// Position is the position to wait for in the read model of sessions before it finds the session.
	Position eventlog.Position
}

// IssueLink makes a link valid with which a person of an account can sign in once until it expires, and returns the
// token to put into it, which is stored nowhere. Each call issues another link. An empty person is signin.Owner.
//
// Errors: signin.ErrInvalid, signin.ErrTooManyLinks, account.ErrNotFound, account.ErrClosed, and the errors of update.
func (s *SignIns) IssueLink(ctx context.Context, request Request,
	accountID, person string) (token string, expires time.Time, err error) {
	person = cmp.Or(person, signin.Owner)
	return s.issue(ctx, request, accountID, signin.IssueLink{Person: person})
}

// IssueMailedLink is IssueLink for a link that a person gets by e-mail, for which signin has further limits.
func (s *SignIns) IssueMailedLink(ctx context.Context, request Request,
	of signin.Person) (token string, expires time.Time, err error) {
	return s.issue(ctx, request, of.AccountID, signin.IssueLink{Person: of.ID, Mailed: true})
}

func (s *SignIns) issue(ctx context.Context, request Request, accountID string,
	in signin.IssueLink) (token string, expires time.Time, err error) {
	token, in.Hash = newToken()
	in.LinkID = uuid.NewString()
	_, err = s.update(ctx, request, accountID,
		in.LinkID, func(state *signin.State, now time.Time) ([]eventschemas.Event, error) {
			in.Now = now
			issued, err := state.IssueLink(in)
			if err != nil || len(issued) == 0 {
				return nil, err
			}
			expires = issued[0].(eventschemas.SignInLinkIssued).ExpiresAt
			return issued, s.accounts.checkOpen(ctx, accountID)
		})
	if err != nil {
		return "", time.Time{}, err
	}
	return token, expires, nil
}

// Enter uses a link up and begins a session of its person. It returns the token of the session, which is stored
// nowhere.
// Of concurrent calls with one link, only one succeeds.
//
// Errors: signin.ErrUnknownLink, also for an unknown account; signin.ErrLinkUsed, signin.ErrLinkExpired,
// signin.ErrTooManySessions, account.ErrClosed, and the errors of update.
func (s *SignIns) Enter(ctx context.Context, request Request,
	accountID, token string) (session string, begun Session, err error) {
	if !isToken(token) || checkAccountID(accountID) != nil {
		return "", Session{}, signin.ErrUnknownLink
	}
	session, hash := newToken()
	in := signin.Enter{LinkHash: hashOf(token), SessionID: uuid.NewString(), SessionHash: hash}
	done, err := s.update(ctx, request, accountID,
		in.SessionID, func(state *signin.State, now time.Time) ([]eventschemas.Event, error) {
			in.Now = now
			events, err := state.Enter(in)
			if err != nil || len(events) == 0 {
				return nil, err
			}
			for _, ev := range events {
				state.Apply(ev, now)
			}
			begun.Session, _ = state.Session(in.SessionID, now)
			return events, s.accounts.checkOpen(ctx, accountID)
		})
	if err != nil {
		return "", Session{}, err
	}
	begun.Position = done.Position
	return session, begun, nil
}

// SignOut ends a session of an account. If it is not open, that is a repeat. It takes effect where sessions are looked
// up:
// wait there for the returned position. Errors: as update.
func (s *SignIns) SignOut(ctx context.Context, request Request, accountID, sessionID string) (Done, error) {
	return s.update(ctx, request, accountID,
		sessionID, func(state *signin.State, now time.Time) ([]eventschemas.Event, error) {
			return state.SignOut(sessionID, now), nil
		})
}

// SignOutEverywhere ends all sessions and withdraws all links of a person, or of all people of the account if person is
// empty. If there is nothing to end, that is a repeat. It takes effect as SignOut does. Errors: signin.ErrInvalid, and
// the errors of update.
func (s *SignIns) SignOutEverywhere(ctx context.Context, request Request, accountID, person string) (Done, error) {
	return s.update(ctx, request, accountID,
		request.ID, func(state *signin.State, now time.Time) ([]eventschemas.Event, error) {
			return state.SignOutEverywhere(person, now)
		})
}

// SetEmail sets the e-mail address to which links of a person are sent; an empty one is removed and erased. It is kept
// with the names of account holders, in lower case, because it is personal data. It is stored after the event, so that
// a rejected command stores none; repeating the command after an error completes it. The present address again is a
// repeat.
//
// Errors: signin.ErrInvalid, signin.ErrTooManyEmails, account.ErrNotFound, account.ErrClosed, and the errors of update
// and of the table of names.
func (s *SignIns) SetEmail(ctx context.Context, request Request, of signin.Person, address string) (Done, error) {
	if err := cmp.Or(checkAccountID(of.AccountID), signin.CheckPerson(of.ID), CheckEmail(address)); err != nil {
		return Done{}, err
	}
	address = strings.ToLower(address)
	set := eventschemas.SignInEmailSet{Person: of.ID, Email: address != ""}
	if of.ID == signin.Owner {
		set.Person = ""
	}
	done, err := s.update(ctx, request, of.AccountID,
		request.ID, func(*signin.State, time.Time) ([]eventschemas.Event, error) {
			if err := s.accounts.checkOpen(ctx, of.AccountID); err != nil {
				return nil, err
			}
			all, err := s.Emails(ctx, of.AccountID)
			if err != nil {
				return nil, err
			}
			at := slices.IndexFunc(all, func(e Email) bool { return e.Person == of.ID })
			switch {
			case at < 0 && address == "", at >= 0 && all[at].Address == address:
				return nil, nil
			case at < 0 && len(all) >= signin.MaxEmails:
				return nil, fmt.Errorf("%w: %d people of this account have one; remove one first",
					signin.ErrTooManyEmails, len(all))
			}
			return []eventschemas.Event{set}, nil
		})
	if err != nil {
		return done, err
	}
	if address == "" { // also for a repeat, because an earlier call may have left the bytes in the file
		return done, s.names.Erase(ctx, emailID(of))
	}
	if done.Repeated {
		return done, nil
	}
	if err := s.names.Put(ctx, emailID(of), address); err != nil {
		return done, err
	}
	if err = s.accounts.checkOpen(ctx, of.AccountID); errors.Is(err, account.ErrClosed) { // meanwhile
		err = errors.Join(err, s.names.Erase(ctx, emailID(of)))
	}
	return done, err
}

// CheckEmail returns signin.ErrInvalid unless a text is an e-mail address, or empty.
func CheckEmail(address string) error {
	if address != "" && !isEmail(address) {
		return fmt.Errorf("%w: the field email is not an e-mail address such as ann@example.com (ASCII only)",
			signin.ErrInvalid)
	}
	return nil
}

// emailID returns the id of the address of a person in the table of names.
func emailID(of signin.Person) string {
	if of.ID == signin.Owner {
		return accountnames.EmailPrefix + of.AccountID
	}
	return accountnames.EmailPrefix + of.AccountID + "/" + of.ID
}

// personOf returns the person whose address has an id in the table of names.
func personOf(emailID string) signin.Person {
	accountID, person, _ := strings.Cut(strings.TrimPrefix(emailID, accountnames.EmailPrefix), "/")
	return signin.Person{AccountID: accountID, ID: cmp.Or(person, signin.Owner)}
}

// Email is the e-mail address to which links of a person are sent.
type Email struct {
	Person  string `json:"person"`
	Address string `json:"email"`
}

// Emails returns the addresses of an account's people, the owner's first. Errors: as the table of names.
func (s *SignIns) Emails(ctx context.Context, accountID string) ([]Email, error) {
	found, err := s.names.Emails(ctx, accountID)
	// The id of the owner's address is the beginning of the others'.
	slices.SortFunc(found, func(a, b accountnames.Entry) int { return strings.Compare(a.ID, b.ID) })
	all := make([]Email, len(found))
	for i, e := range found {
		all[i] = Email{personOf(e.ID).ID, e.Name}
	}
	return all, err
}

// EraseEmails erases the addresses of an account's people. Errors: as the table of names.
func (s *SignIns) EraseEmails(ctx context.Context, accountID string) error {
	ids, err := s.names.EmailIDs(ctx, accountID)
	for _, id := range ids {
		err = errors.Join(err, s.names.Erase(ctx, id))
	}
	return err
}

// WithEmail returns the people who get links at an address. Errors: as the table of names.
func (s *SignIns) WithEmail(ctx context.Context, address string) ([]signin.Person, error) {
	ids, err := s.names.WithName(ctx, strings.ToLower(address), accountnames.EmailPrefix)
	people := make([]signin.Person, len(ids))
	for i, id := range ids {
		people[i] = personOf(id)
	}
	return people, err
}

// newToken returns a random text and its hash.
func newToken() (token, hash string) {
	var raw [tokenBytes]byte
	_, _ = rand.Read(raw[:]) // it never fails
	token = base64.RawURLEncoding.EncodeToString(raw[:])
	return token, hashOf(token)
}

// isToken reports whether a text has the form of a token of newToken.
func isToken(text string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(raw) == tokenBytes
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// update decides about the sign-ins of an account, and appends the events of the decision under its key. Errors:
// account.ErrNotFound if the account's id is malformed, ErrInvalidRequest, and the errors of coldStreams.do and of
// AccountWriter.
func (s *SignIns) update(ctx context.Context, request Request, accountID, key string,
	decide func(*signin.State, time.Time) ([]eventschemas.Event, error)) (Done, error) {
	if err := errors.Join(request.Validate(), checkAccountID(accountID)); err != nil {
		return Done{}, err
	}
	var state *signin.State
	return s.do(ctx, &coldCommand{
		stream: signin.Stream(accountID), request: request, key: key, settles: true,
		read: func(ctx context.Context) (end streamEnd, err error) {
			if state, end, err = s.load(ctx, accountID); err != nil {
				err = fmt.Errorf("read %s: %w", signin.Stream(accountID), err)
			}
			return end, err
		},
		decide: func(now time.Time) ([]eventschemas.Event, error) { return decide(state, now) },
	})
}

// load folds the events of a stream that are relevant now. They are read from the end, because a stream grows for as
// long as its account is used.
func (s *SignIns) load(ctx context.Context, accountID string) (state *signin.State, end streamEnd, err error) {
	now := s.now()
	var recent []*eventlog.Recorded // the newest first
	for rec, err := range eventlog.Events(ctx, s.log, signin.Stream(accountID), eventlog.End, eventlog.Backward,
		streamPage) {
		if err != nil {
			return nil, end, err
		}
		if len(recent) == 0 {
			end = endOf(rec)
			now = monotonic(now, end.at)
		}
		if now.Sub(rec.OccurredAt) > signin.Relevant {
			break
		}
		recent = append(recent, rec)
	}
	state = signin.New(accountID)
	for _, rec := range slices.Backward(recent) {
		ev, err := eventlog.Decode(rec, eventschemas.Decode)
		if err != nil {
			return nil, end, err
		}
		state.Apply(ev, rec.OccurredAt)
	}
	return state, end, nil
}
