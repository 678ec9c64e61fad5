package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/internal/repeats"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
)

// ErrNotSeen means that a decision is durable, and that requests were not seen to follow it in time.
var ErrNotSeen = commands.ErrNotSeen

// NewAccount, Account and Key are printed by commands as the admin API answers them.
type (
	NewAccount = adminapi.NewAccount
	Account    = adminapi.Account
	Key        = adminapi.Key
	NewKey     = adminapi.NewKey
)

// Operator returns the request of an operator at the command line.
func (n *Node) Operator() commands.Request {
	return commands.Request{ID: uuid.NewString(), Actor: "operator:cli"}
}

// Now returns the time by which the node records events.
func (n *Node) Now() time.Time { return n.clock.Now() }

// derivedID returns the id of something that a request makes. Repeating the request gives the same id, so that it is made
// once.
func derivedID(by commands.Request, what string) string {
	return uuid.NewSHA1(requestNamespace, []byte(by.ID+"/"+what)).String()
}

var requestNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:letterhead:request"))

// CreateAccount opens an account with its free credits and issues one key of each kind. With ErrNotSeen it returns the
// account as well. Repeating the request opens nothing, and returns the keys without their text.
func (n *Node) CreateAccount(ctx context.Context, by commands.Request, name string, id plan.ID) (NewAccount, error) {
	accountID, holder := derivedID(by, "account"), derivedID(by, "holder")
	done, err := n.AccountWriter.OpenAccount(ctx, commands.OpenAccount{Request: by, AccountID: accountID, Holder: holder, Plan: id})
	if err != nil {
		return NewAccount{}, err
	}
	storesName := true
	if done.Repeated {
		if storesName, err = n.openedLately(ctx, accountID); err != nil {
			return NewAccount{}, err
		}
	}
	var named error
	if storesName {
		named = n.name(ctx, holder, name, n.closed(accountID))
	}
	created, err := n.keysFor(ctx, by, accountID, name)
	return created, errors.Join(err, named)
}

// name stores the name of something whose event is in the log, also if a repeated request may have stored it before. A
// name that was erased since stays erased: erased reports whether it may have been. After an error, which is ErrNotSeen,
// the thing works all the same.
func (n *Node) name(ctx context.Context, id, name string, erased func(context.Context) (bool, error)) error {
	gone, err := erased(ctx)
	if err == nil && !gone {
		if err = n.Names.Put(ctx, id, name); err == nil {
			gone, err = erased(ctx) // and may have been before Put
		}
		if err == nil && gone {
			err = n.Names.Erase(ctx, id)
		}
	}
	if err != nil {
		return fmt.Errorf("its name was not stored: %w: %w", ErrNotSeen, err)
	}
	return nil
}

// isLate reports whether a repeat of what was done at a time stores no name. Until then it does, in case the first attempt
// could not; later the name may have been left out when a backup was restored.
func (n *Node) isLate(at time.Time) bool { return n.clock.Now().Sub(at) >= repeats.Window }

func (n *Node) openedLately(ctx context.Context, accountID string) (bool, error) {
	if err := n.Folded(ctx, accounts.Name); err != nil {
		return false, err
	}
	row, err := n.Accounts.Get(ctx, accountID)
	return err == nil && !n.isLate(row.OpenedAt), err
}

// closed returns a function that reports whether an account is closed, which erases its names.
func (n *Node) closed(accountID string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		standing, err := n.AccountWriter.Standing(ctx, accountID)
		return standing.Status == string(account.Closed), err
	}
}

// keysFor issues a key of each kind. With ErrNotSeen it returns everything as well.
func (n *Node) keysFor(ctx context.Context, by commands.Request, accountID, name string) (NewAccount, error) {
	var out NewAccount
	var unseen error
	for _, kind := range []apikey.Kind{apikey.Secret, apikey.Publishable} {
		k, err := n.IssueKey(ctx, by, accountID, NewKey{Kind: kind})
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
// as well. Repeating the request issues nothing, and returns the key without its text, which is stored nowhere.
func (n *Node) IssueKey(ctx context.Context, by commands.Request, accountID string, in NewKey) (Key, error) {
	terms, err := in.Terms.Canonical(string(in.Kind))
	if err != nil {
		return Key{}, err
	}
	text, err := apikey.Generate(in.Kind, rand.Reader)
	if err != nil {
		return Key{}, err
	}
	key, err := apikey.Parse(text)
	if err != nil {
		return Key{}, err
	}
	id := derivedID(by, "key/"+string(in.Kind))
	done, err := n.AccountWriter.IssueKey(ctx, commands.IssueKey{
		Request: by, AccountID: accountID, KeyID: id, Key: key, Terms: terms,
	})
	if errors.Is(err, account.ErrKeyExists) {
		return n.issuedBefore(ctx, accountID, id, in.Name)
	}
	if err != nil {
		return Key{}, err
	}
	issued := Key{ID: id, Kind: string(in.Kind), Key: text, Last: key.Last4, KeyTerms: terms}
	var named error
	if in.Name != "" {
		named = n.name(ctx, id, in.Name, n.closed(accountID))
	}
	if err := n.AwaitKeys(ctx, done.Position); err != nil {
		return issued, fmt.Errorf("key %s is issued: %w: %w", id, ErrNotSeen, errors.Join(err, named))
	}
	return issued, named
}

// issuedBefore returns a key without its text, and stores its name unless the key is revoked or the repeat is late.
func (n *Node) issuedBefore(ctx context.Context, accountID, id, name string) (Key, error) {
	if err := n.Folded(ctx, keys.Name); err != nil {
		return Key{}, err
	}
	known, found, err := n.Keys.Get(ctx, id)
	if err == nil && found && known.RevokedAt.IsZero() && name != "" && !n.isLate(known.IssuedAt) {
		err = n.name(ctx, id, name, n.closed(accountID))
	}
	return Key{ID: id, Kind: known.Kind, Last: known.Last4, KeyTerms: known.KeyTerms}, err
}

// CloseAccount closes an account, erases the personal data of its holder and keys, and ends the sessions of its people. With
// ErrNotSeen everything is done, and not every node was seen to follow.
func (n *Node) CloseAccount(ctx context.Context, by commands.Request, id string) (commands.Done, error) {
	row, err := n.Accounts.Get(ctx, id)
	if err != nil {
		return commands.Done{}, err
	}
	issued, err := n.Keys.List(ctx, id)
	if err != nil {
		return commands.Done{}, err
	}
	done, err := n.AccountWriter.Close(ctx, commands.CloseAccount{Request: by, AccountID: id, Reason: "operator"})
	if err != nil {
		return done, err
	}
	_, ended := n.SignOutEverywhere(ctx, by, id, "") // first, because what follows may fail
	if err := n.Names.Erase(ctx, row.Holder); err != nil {
		return done, err
	}
	for _, k := range issued {
		if err := n.Names.Erase(ctx, k.ID); err != nil {
			return done, err
		}
	}
	if err := errors.Join(n.Notices.Erase(ctx, id), n.SignIns.EraseEmails(ctx, id)); err != nil {
		return done, err
	}
	return done, ended
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
	return n.Folded(ctx, brands.Name)
}

// AccountExists returns account.ErrNotFound if the log has no such account.
func (n *Node) AccountExists(ctx context.Context, id string) error {
	first, err := n.Log.ReadStream(ctx, account.Stream(id), 0, eventlog.Forward, 1)
	if err == nil && len(first) == 0 {
		err = account.ErrNotFound
	}
	return err
}

// Usage returns what an account used in a month, given by its beginning. Errors: those of usage.Model.Get.
func (n *Node) Usage(ctx context.Context, id string, month time.Time) (usage.Counts, error) {
	return n.usage.Get(ctx, id, month.Format(books.MonthLayout))
}

// ReverseRequest reverses the charges of one request. It returns how many the request had, and whether all of them were
// reversed before.
func (n *Node) ReverseRequest(ctx context.Context, by commands.Request, accountID, requestID string) (charges int, repeated bool, err error) {
	if err := n.CatchUp(ctx, ledger.Name); err != nil {
		return 0, false, err
	}
	repeated = true
	for entry, err := range n.Ledger.Entries(ctx, accountID, ledger.Filter{RequestID: requestID}) {
		if err != nil {
			return 0, false, err
		}
		if entry.ChargeID == "" || entry.Amount >= 0 {
			continue
		}
		charges++
		done, err := n.AccountWriter.ReverseCharge(ctx, commands.ReverseCharge{
			Request: by, AccountID: accountID, ChargeID: entry.ChargeID, Revision: entry.Revision, Reason: account.ReasonOperator,
		})
		if err != nil {
			return 0, false, fmt.Errorf("reverse charge %s: %w", entry.ChargeID, err)
		}
		repeated = repeated && done.Repeated
	}
	if charges == 0 {
		return 0, false, fmt.Errorf("request %s: %w to account %s", requestID, adminapi.ErrNotCharged, accountID)
	}
	return charges, repeated, nil
}
