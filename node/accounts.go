package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/projections/brands"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
)

// ErrNotSeen means that a decision is durable, and that requests were not seen to follow it in time.
var ErrNotSeen = errors.New("not every node has confirmed it in time")

// NewAccount is an account with keys that were just issued.
type NewAccount struct {
	Account Account `json:"account"`
	Credits struct {
		Balance int64 `json:"balance"`
	} `json:"credits"`
	Keys []Key `json:"keys"`
}

// Account is an account as commands print it.
type Account struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Plan   string `json:"plan"`
	Status string `json:"status"`
}

// Key is an API key as commands print it.
type Key struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Key  string `json:"key,omitempty"` // shown once, when it is issued
	Last string `json:"last4"`
}

// Operator returns the request of an operator at the command line.
func (n *Node) Operator() commands.Request {
	return commands.Request{ID: uuid.NewString(), Actor: "operator:cli"}
}

// CreateAccount opens an account with its free credits and issues one key of each kind. With ErrNotSeen it returns the
// account as well.
func (n *Node) CreateAccount(ctx context.Context, name string, id plan.ID) (NewAccount, error) {
	accountID, holder := uuid.NewString(), uuid.NewString()
	if err := n.Names.Put(ctx, holder, name); err != nil {
		return NewAccount{}, err
	}
	if err := n.AccountWriter.OpenAccount(ctx, commands.OpenAccount{Request: n.Operator(), AccountID: accountID, Holder: holder, Plan: id}); err != nil {
		return NewAccount{}, err
	}
	return n.keysFor(ctx, accountID, name)
}

// keysFor issues a key of each kind. With ErrNotSeen it returns everything as well.
func (n *Node) keysFor(ctx context.Context, accountID, name string) (NewAccount, error) {
	var out NewAccount
	var unseen error
	for _, kind := range []apikey.Kind{apikey.Secret, apikey.Publishable} {
		k, err := n.IssueKey(ctx, accountID, kind, "")
		if err != nil && !errors.Is(err, ErrNotSeen) {
			return out, err
		}
		unseen = errors.Join(unseen, err)
		out.Keys = append(out.Keys, k)
	}
	standing, err := n.AccountWriter.Standing(ctx, accountID)
	if err != nil {
		return out, err
	}
	out.Account = Account{ID: accountID, Name: name, Plan: string(standing.Plan), Status: standing.Status}
	out.Credits.Balance = standing.Balance
	return out, unseen
}

// IssueKey makes a key and returns once requests with it are accepted. With ErrNotSeen the key exists, and is returned
// as well.
func (n *Node) IssueKey(ctx context.Context, accountID string, kind apikey.Kind, name string) (Key, error) {
	text, err := apikey.Generate(kind, rand.Reader)
	if err != nil {
		return Key{}, err
	}
	key, err := apikey.Parse(text)
	if err != nil {
		return Key{}, err
	}
	id := uuid.NewString()
	if name != "" {
		if err := n.Names.Put(ctx, id, name); err != nil {
			return Key{}, err
		}
	}
	done, err := n.AccountWriter.IssueKey(ctx, commands.IssueKey{
		Request: n.Operator(), AccountID: accountID, KeyID: id, Key: key,
	})
	if err != nil {
		return Key{}, err
	}
	issued := Key{ID: id, Kind: string(kind), Key: text, Last: key.Last4}
	if err := n.AwaitKeys(ctx, done.Position); err != nil {
		return issued, fmt.Errorf("key %s is issued: %w: %w", id, ErrNotSeen, err)
	}
	return issued, nil
}

// CloseAccount closes an account and erases the personal data of its holder and keys.
func (n *Node) CloseAccount(ctx context.Context, id string) (commands.Done, error) {
	row, err := n.Accounts.Get(ctx, id)
	if err != nil {
		return commands.Done{}, err
	}
	issued, err := n.Keys.List(ctx, id)
	if err != nil {
		return commands.Done{}, err
	}
	done, err := n.AccountWriter.Close(ctx, commands.CloseAccount{Request: n.Operator(), AccountID: id, Reason: "operator"})
	if err != nil {
		return done, err
	}
	if err := n.Names.Erase(ctx, row.Holder); err != nil {
		return done, err
	}
	for _, k := range issued {
		if err := n.Names.Erase(ctx, k.ID); err != nil {
			return done, err
		}
	}
	return done, nil
}

// AwaitKeys waits until requests on every node follow the decisions up to a position. Every command that decides on
// keys and accounts calls it.
func (n *Node) AwaitKeys(ctx context.Context, position eventlog.Position) error {
	ctx, cancel := context.WithTimeout(ctx, enforceTimeout)
	defer cancel()
	return n.Keys.AwaitNodes(ctx, func(ctx context.Context) error { return n.Runner.WaitFor(ctx, keys.Name, position) })
}

// AwaitBrands waits until look-ups are answered from the decisions up to now.
func (n *Node) AwaitBrands(ctx context.Context) error {
	waiting, cancel := n.bounded(ctx)
	defer cancel()
	return n.FoldedTo(waiting, brands.Name)
}

// AccountExists returns account.ErrNotFound if the log has no such account.
func (n *Node) AccountExists(ctx context.Context, id string) error {
	first, err := n.Log.ReadStream(ctx, account.Stream(id), 0, eventlog.Forward, 1)
	if err == nil && len(first) == 0 {
		err = account.ErrNotFound
	}
	return err
}

// ReverseRequest reverses the charges of one request, and returns how many it had.
func (n *Node) ReverseRequest(ctx context.Context, accountID, requestID string) (charges int, err error) {
	if err := n.CatchUp(ctx, ledger.Name); err != nil {
		return 0, err
	}
	for entry, err := range n.Ledger.Entries(ctx, accountID, ledger.Filter{RequestID: requestID}) {
		if err != nil {
			return charges, err
		}
		if entry.ChargeID == "" || entry.Amount >= 0 {
			continue
		}
		charges++
		err := n.AccountWriter.ReverseCharge(ctx, commands.ReverseCharge{
			Request: n.Operator(), AccountID: accountID, ChargeID: entry.ChargeID, Revision: entry.Revision, Reason: account.ReasonOperator,
		})
		if err != nil {
			return charges, fmt.Errorf("reverse charge %s: %w", entry.ChargeID, err)
		}
	}
	if charges == 0 {
		return 0, fmt.Errorf("request %s was not charged to account %s", requestID, accountID)
	}
	return charges, nil
}
