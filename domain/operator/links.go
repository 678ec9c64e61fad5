package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/eventschemas"
)

// IssueLink is the command to make a link valid.
type IssueLink struct {
	LinkID string
	Hash   string // hex SHA-256
	Scope  Scope
	Now    time.Time
}

// IssueLink makes a link valid for LinkLifetime. The same link again is a repeat, which has no events. Errors:
// ErrInvalid, ErrTooManyLinks.
func (t *Tokens) IssueLink(in IssueLink) ([]eventschemas.Event, error) {
	switch {
	case in.LinkID == "" || len(in.Hash) != 64:
		return nil, fmt.Errorf("%w: the link has no id or no hash", ErrInvalid)
	case !slices.Contains(Scopes, in.Scope):
		return nil, invalidScope(in.Scope)
	}
	if known, ok := t.links[in.LinkID]; ok {
		if known.hash != in.Hash {
			return nil, fmt.Errorf("%w: the id belongs to another link", ErrInvalid)
		}
		return nil, nil
	}
	open := 0
	for id, l := range t.links {
		if !t.used(id) && in.Now.Before(l.expires) {
			open++
		}
	}
	if open >= MaxOpenLinks {
		return nil, fmt.Errorf("%w: %d were not used yet; use one of them, or wait %d minutes until they have expired",
			ErrTooManyLinks, open, LinkLifetime/time.Minute)
	}
	expires := in.Now.Add(LinkLifetime).UTC().Truncate(time.Microsecond)
	return []eventschemas.Event{eventschemas.OperatorLinkIssued{LinkID: in.LinkID, Hash: in.Hash,
		Scope: string(in.Scope), ExpiresAt: expires}}, nil
}

// used reports whether an operator has signed in with a link.
func (t *Tokens) used(linkID string) bool {
	_, used := t.tokens[linkID]
	return used
}

// MaxLapsed limits the links that Lapsed returns. At most MaxOpenLinks lapse between two calls of IssueLink, so it
// returns each of them in the next calls, too, in case what the caller does with it failed.
const MaxLapsed = 5 * MaxOpenLinks

// Lapsed returns the ids of the links that expired before they were used, the newest first, at most MaxLapsed.
func (t *Tokens) Lapsed(now time.Time) []string {
	var ids []string
	for id, l := range t.links {
		if !t.used(id) && !now.Before(l.expires) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(t.links[b].expires.Compare(t.links[a].expires), strings.Compare(a, b))
	})
	return ids[:min(len(ids), MaxLapsed)]
}

// Enter is the command to sign in with a link.
type Enter struct {
	LinkID   string
	LinkHash string // hex SHA-256
	Hash     string // hex SHA-256 of the token that the operator gets
	Last4    string // of that token
	Now      time.Time
}

// Enter uses a link up, and makes a token with its id and its scope valid for SessionLifetime. The same token again is
// a repeat, which has no events. Errors: ErrInvalid, ErrUnknownLink, ErrLinkUsed, ErrLinkExpired, ErrTooManyTokens.
func (t *Tokens) Enter(in Enter) ([]eventschemas.Event, error) {
	l, ok := t.links[in.LinkID]
	if !ok || l.hash != in.LinkHash {
		return nil, ErrUnknownLink
	}
	switch begun, used := t.tokens[in.LinkID]; {
	case used && begun.hash != in.Hash:
		return nil, ErrLinkUsed
	case !used && !in.Now.Before(l.expires):
		return nil, ErrLinkExpired
	}
	return t.Issue(Issue{TokenID: in.LinkID, Hash: in.Hash, Last4: in.Last4, Scope: l.scope,
		ExpiresAt: in.Now.Add(SessionLifetime), Now: in.Now})
}
