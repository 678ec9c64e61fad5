package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/internal/accountnames"
	"letterhead/internal/apikey"
	"letterhead/internal/repeats"
	"letterhead/projections/accounts"
	"letterhead/projections/keys"
	"letterhead/projections/usage"
)

// NewAccount is an account with keys that were just issued.
type NewAccount struct {
	Account Account `json:"account"`
	Credits struct {
		Balance int64 `json:"balance"`
	} `json:"credits"`
	Keys []Key `json:"keys"`
}

// Account is an account as it is shown.
type Account struct {
	ID     string `json:"id"`
	Name   string `json:"name"` // empty if it was erased
	Plan   string `json:"plan"`
	Status string `json:"status"`
}

// Key is an API key as it is shown.
type Key struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Key  string `json:"key,omitempty"` // only once, when it is issued
	Last string `json:"last4"`
	account.KeyTerms
}

// NewKey describes a key to issue.
type NewKey struct {
	Kind  apikey.Kind
	Name  string // to recognize it; may be empty
	Terms account.KeyTerms
}

// Accounts are the use cases of accounts and their keys.
type Accounts struct {
	Reads   *Reads
	Writer  *commands.AccountWriter
	Names   *accountnames.Table
	Model   *accounts.Model
	Keys    *keys.Directory
	Counts  *usage.Model
	SignIns *SignIns
	Notices *commands.Notices
	Now     func() time.Time
}

// derivedID returns the id of something that a request makes. Repeating the request gives the same id, so that it is
// made once.
func derivedID(by commands.Request, what string) string {
	return uuid.NewSHA1(requestNamespace, []byte(by.ID+"/"+what)).String()
}

var requestNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:letterhead:request"))

// Create opens an account with its free credits and issues one key of each kind. With ErrNotSeen it returns the
// account as well. Repeating the request opens nothing, and returns the keys without their text.
func (o *Accounts) Create(ctx context.Context, by commands.Request, name string, id plan.ID) (NewAccount, error) {
	accountID, holder := derivedID(by, "account"), derivedID(by, "holder")
	done, err := o.Writer.OpenAccount(ctx,
		commands.OpenAccount{Request: by, AccountID: accountID, Holder: holder, Plan: id})
	if err != nil {
		return NewAccount{}, err
	}
	storesName := true
	if done.Repeated {
		if storesName, err = o.openedLately(ctx, accountID); err != nil {
			return NewAccount{}, err
		}
	}
	var named error
	if storesName {
		named = storeName(ctx, o.Names, holder, name, closed(o.Writer, accountID))
	}
	created, err := o.KeysFor(ctx, by, accountID, name)
	return created, errors.Join(err, named)
}

// storeName stores the name of something whose event is in the log, also if a repeated request may have stored it
// before. A name that was erased since stays erased: erased reports whether it may have been. After an error, which is
// ErrNotSeen, the thing works all the same.
func storeName(ctx context.Context, names *accountnames.Table, id, name string,
	erased func(context.Context) (bool, error)) error {
	gone, err := erased(ctx)
	if err == nil && !gone {
		if err = names.Put(ctx, id, name); err == nil {
			gone, err = erased(ctx) // and may have been before Put
		}
		if err == nil && gone {
			err = names.Erase(ctx, id)
		}
	}
	if err != nil {
		return fmt.Errorf("its name was not stored: %w: %w", commands.ErrNotSeen, err)
	}
	return nil
}

// isLate reports whether a repeated request stores no name, because the first one was long ago. Until then it does, in
// case the first attempt could not; later the name may have been left out when a backup was restored.
func isLate(now, at time.Time) bool { return now.Sub(at) >= repeats.Window }

func (o *Accounts) openedLately(ctx context.Context, accountID string) (bool, error) {
	if err := o.Reads.Folded(ctx, accounts.Name); err != nil {
		return false, err
	}
	row, err := o.Model.Get(ctx, accountID)
	return err == nil && !isLate(o.Now(), row.OpenedAt), err
}

// closed returns a function that reports whether an account is closed, which erases its names.
func closed(w *commands.AccountWriter, accountID string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		standing, err := w.Standing(ctx, accountID)
		return standing.Status == string(account.Closed), err
	}
}

// KeysFor issues a key of each kind. With ErrNotSeen it returns everything as well.
func (o *Accounts) KeysFor(ctx context.Context, by commands.Request, accountID, name string) (NewAccount, error) {
	var out NewAccount
	var unseen error
	for _, kind := range []apikey.Kind{apikey.Secret, apikey.Publishable} {
		k, err := o.IssueKey(ctx, by, accountID, NewKey{Kind: kind})
		if err != nil && !errors.Is(err, commands.ErrNotSeen) {
			return out, err
		}
		unseen = errors.Join(unseen, err)
		out.Keys = append(out.Keys, k)
	}
	standing, err := o.Writer.Standing(ctx, accountID)
	if err != nil {
		return out, err
	}
	out.Account = Account{ID: accountID, Name: name, Plan: string(standing.Plan), Status: standing.Status}
	out.Credits.Balance = standing.Balance
	return out, unseen
}

// IssueKey makes a key and returns once requests with it are accepted. With ErrNotSeen the key exists, and is returned
// as well. Repeating the request issues nothing, and returns the key without its text, which is stored nowhere.
func (o *Accounts) IssueKey(ctx context.Context, by commands.Request, accountID string, in NewKey) (Key, error) {
	terms, err := in.Terms.Canonical(string(in.Kind))
	if err != nil {
		return Key{}, err
	}
	text, key, err := newKey(in.Kind)
	if err != nil {
		return Key{}, err
	}
	id := derivedID(by, "key/"+string(in.Kind))
	done, err := o.Writer.IssueKey(ctx, commands.IssueKey{
		Request: by, AccountID: accountID, KeyID: id, Key: key, Terms: terms,
	})
	if errors.Is(err, account.ErrKeyExists) {
		return o.issuedBefore(ctx, accountID, id, in.Name)
	}
	if err != nil {
		return Key{}, err
	}
	issued := Key{ID: id, Kind: string(in.Kind), Key: text, Last: key.Last4, KeyTerms: terms}
	var named error
	if in.Name != "" {
		named = storeName(ctx, o.Names, id, in.Name, closed(o.Writer, accountID))
	}
	if err := o.Reads.AwaitKeys(ctx, done.Position); err != nil {
		return issued, fmt.Errorf("key %s is issued: %w: %w", id, commands.ErrNotSeen, errors.Join(err, named))
	}
	return issued, named
}

// issuedBefore returns a key without its text, and stores its name unless the key is revoked or the repeat is late.
func (o *Accounts) issuedBefore(ctx context.Context, accountID, id, name string) (Key, error) {
	if err := o.Reads.Folded(ctx, keys.Name); err != nil {
		return Key{}, err
	}
	known, found, err := o.Keys.Get(ctx, id)
	if err == nil && found && known.RevokedAt.IsZero() && name != "" && !isLate(o.Now(), known.IssuedAt) {
		err = storeName(ctx, o.Names, id, name, closed(o.Writer, accountID))
	}
	return Key{ID: id, Kind: known.Kind, Last: known.Last4, KeyTerms: known.KeyTerms}, err
}

// Close closes an account, erases the personal data of its holder and keys, and ends the sessions of its people. With
// ErrNotSeen everything is done, and not every node was seen to follow.
func (o *Accounts) Close(ctx context.Context, by commands.Request, id string) (commands.Done, error) {
	row, err := o.Model.Get(ctx, id)
	if err != nil {
		return commands.Done{}, err
	}
	issued, err := o.Keys.List(ctx, id)
	if err != nil {
		return commands.Done{}, err
	}
	done, err := o.Writer.Close(ctx, commands.CloseAccount{Request: by, AccountID: id, Reason: "operator"})
	if err != nil {
		return done, err
	}
	_, ended := o.SignIns.SignOutEverywhere(ctx, by, id, "") // first, because what follows may fail
	if err := o.Names.Erase(ctx, row.Holder); err != nil {
		return done, err
	}
	for _, k := range issued {
		if err := o.Names.Erase(ctx, k.ID); err != nil {
			return done, err
		}
	}
	if err := errors.Join(o.Notices.Erase(ctx, id), o.SignIns.Commands.EraseEmails(ctx, id)); err != nil {
		return done, err
	}
	return done, ended
}
