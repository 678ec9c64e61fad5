package account

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// FoldVersion is the version of the fold and of its snapshot. Snapshots of other versions are ignored:
// increment it with every change of Apply or of the snapshot's format.
const FoldVersion = 10

// OldestFoldVersion is the version of the previous release, which may run at the same time as this one until an upgrade
// is finished. Snapshots of earlier versions are no longer needed.
const OldestFoldVersion = FoldVersion - 1

// ErrSnapshot means that the data is not a snapshot of this account and this FoldVersion.
var ErrSnapshot = errors.New("not a usable account snapshot")

// snapshot is the stored form. Everything is sorted or in stream order, so that equal states give equal bytes.
type snapshot struct {
	FoldVersion int               `json:"fold_version"`
	ID          string            `json:"id"`
	Status      Status            `json:"status"`
	Holder      string            `json:"holder"`
	Plan        plan.ID           `json:"plan"`
	Balance     int64             `json:"balance"`
	Month       int               `json:"month"`
	Lookups     int64             `json:"lookups"`
	Revisions   uint64            `json:"revisions"`
	LastAt      time.Time         `json:"last_at"`
	Head        string            `json:"head"` // hex
	Open        []snapshotHold    `json:"open"`
	Ended       []snapshotHold    `json:"ended"`
	Payments    []snapshotPayment `json:"payments"`
	Grants      []snapshotGrant   `json:"grants"`
	Refunds     []snapshotRefund  `json:"refunds"`
	Fees        []snapshotFee     `json:"fees,omitempty"`
	Keys        []snapshotKey     `json:"keys"`
	Limits      KeyLimits         `json:"limits,omitempty"`
	Notes       []string          `json:"notes,omitempty"`
	Charged     []snapshotCharge  `json:"charged"`
	KeysPast    uint64            `json:"keys_past,omitempty"`
	KeysAt      time.Time         `json:"keys_at,omitzero"`
	Kept        []remembered      `json:"kept"`
	KeptPast    time.Time         `json:"kept_past,omitzero"`
	Reversed    []byte            `json:"reversed"` // see packReversed
	Recent      []ChargeFact      `json:"recent"`
}

// snapshotHold is an open hold, or one that has ended.
type snapshotHold struct {
	ID string `json:"id"`
	ending
}

type snapshotPayment struct {
	ID       string `json:"id"`
	Granted  int64  `json:"granted"`
	Refunded int64  `json:"refunded"`
	Paid     int64  `json:"paid,omitempty"`
	Tax      int64  `json:"tax,omitempty"`
	Currency string `json:"currency,omitempty"`
	Returned int64  `json:"returned,omitempty"`
}

type snapshotGrant struct {
	ID      string `json:"id"`
	Credits int64  `json:"credits"`
}

type snapshotRefund struct {
	ID        string `json:"id"`
	Payment   string `json:"payment"`
	Credits   int64  `json:"credits"`
	Minor     int64  `json:"minor,omitempty"`
	Currency  string `json:"currency,omitempty"`
	Returned  int64  `json:"returned,omitempty"`
	Reversed  bool   `json:"reversed,omitempty"`
	Rest      bool   `json:"rest,omitempty"`
	RestMoney bool   `json:"rest_money,omitempty"`
}

type snapshotFee struct {
	ID string `json:"id"`
	fee
}

type snapshotKey struct {
	ID string `json:"id"`
	key
}

type snapshotCharge struct {
	Key string `json:"key"`
	keyed
}

// MarshalBinary encodes the state as deterministic JSON. It fails while a group is tentative: a
// snapshot holds facts only.
func (a *Account) MarshalBinary() ([]byte, error) {
	if a.tentative {
		return nil, errors.New("snapshot of an account within a tentative group")
	}
	s := snapshot{
		FoldVersion: FoldVersion,
		ID:          a.id,
		Status:      a.core.status,
		Holder:      a.core.holder,
		Plan:        a.core.plan,
		Balance:     a.core.balance,
		Month:       a.core.month,
		Lookups:     a.core.lookups,
		Limits:      a.core.limits,
		Revisions:   a.core.revisions,
		LastAt:      a.core.lastAt,
		Head:        hex.EncodeToString(a.core.head[:]),
	}
	for _, id := range slices.Sorted(maps.Keys(a.open)) {
		s.Open = append(s.Open, snapshotHold{id, ending{hold: a.open[id]}})
	}
	for _, r := range a.endedOrder {
		if e, ok := a.ended[r.ID]; ok && e.Revision == r.Revision {
			s.Ended = append(s.Ended, snapshotHold{r.ID, e})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.payments)) {
		p := a.payments[id]
		s.Payments = append(s.Payments, snapshotPayment{
			ID: id, Granted: p.granted, Refunded: p.refunded, Paid: p.paid.Minor, Tax: p.tax, Currency: p.paid.Currency,
			Returned: p.returned,
		})
	}
	s.Notes = slices.Sorted(maps.Keys(a.notes))
	for _, id := range slices.Sorted(maps.Keys(a.grants)) {
		s.Grants = append(s.Grants, snapshotGrant{ID: id, Credits: a.grants[id]})
	}
	for _, id := range slices.Sorted(maps.Keys(a.refunds)) {
		r := a.refunds[id]
		s.Refunds = append(s.Refunds, snapshotRefund{
			ID: id, Payment: r.paymentID, Credits: r.credits, Minor: r.money.Minor, Currency: r.money.Currency,
			Returned: r.returned, Reversed: r.reversed, Rest: r.rest, RestMoney: r.restMoney,
		})
	}
	for _, id := range slices.Sorted(maps.Keys(a.fees)) {
		s.Fees = append(s.Fees, snapshotFee{id, a.fees[id]})
	}
	for _, id := range slices.Sorted(maps.Keys(a.keys)) {
		s.Keys = append(s.Keys, snapshotKey{id, a.keys[id]})
	}
	for _, r := range a.chargedOrder {
		if k, ok := a.charged[r.ID]; ok && k.Revision == r.Revision {
			s.Charged = append(s.Charged, snapshotCharge{r.ID, k})
		}
	}
	s.KeysPast, s.KeysAt = a.core.keysPast, a.core.keysAt
	s.Kept, s.KeptPast = a.keptOrder, a.core.keptPast
	s.Reversed = a.packReversed()
	for _, c := range a.recent[a.recentGone:] {
		s.Recent = append(s.Recent, c.ChargeFact)
	}
	return json.Marshal(s)
}

// UnmarshalBinary replaces the state with a snapshot of the same account. If it fails with
// ErrSnapshot, the account is unchanged.
func (a *Account) UnmarshalBinary(data []byte) error {
	var s snapshot
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if dec.More() {
		return fmt.Errorf("%w: trailing data", ErrSnapshot)
	}
	if s.FoldVersion != FoldVersion {
		return fmt.Errorf("%w: fold version %d, not %d", ErrSnapshot, s.FoldVersion, FoldVersion)
	}
	if s.ID != a.id {
		return fmt.Errorf("%w: it is of another account", ErrSnapshot)
	}
	restored := New(a.id)
	if err := restored.restore(s); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	*a = *restored
	return nil
}

func (a *Account) restore(s snapshot) error {
	head, err := hex.DecodeString(s.Head)
	if err != nil || len(head) != len(a.core.head) {
		return errors.New("damaged head of the hash chain")
	}
	if !slices.Contains([]Status{"", Active, Suspended, Closed}, s.Status) {
		return fmt.Errorf("unknown status %q", s.Status)
	}
	if s.Balance < -MaxCredits || s.Balance > MaxCredits {
		return errors.New("balance exceeds the largest amount")
	}
	a.core.status, a.core.holder, a.core.plan = s.Status, s.Holder, s.Plan
	a.core.balance, a.core.month, a.core.lookups = s.Balance, s.Month, s.Lookups
	a.core.revisions, a.core.lastAt = s.Revisions, s.LastAt.UTC()
	a.core.limits = s.Limits
	copy(a.core.head[:], head)
	if err := a.restoreHolds(s); err != nil {
		return err
	}
	if len(s.Kept) > MaxKeptCharges {
		return errors.New("more kept charges than are remembered")
	}
	a.restoreMoney(s)
	a.restoreCharges(s)
	if err := a.unpackReversed(s.Reversed); err != nil {
		return err
	}
	return a.restoreRecent(s)
}

func (a *Account) restoreRecent(s snapshot) error {
	if len(s.Recent) > MaxRecentCharges {
		return errors.New("more recent charges than are remembered")
	}
	for i, c := range s.Recent {
		if c.ChargeID == "" || c.Credits < 1 || c.Credits > MaxCredits || c.Revision >= s.Revisions {
			return errors.New("damaged recent charge")
		}
		if i > 0 && c.Revision <= s.Recent[i-1].Revision {
			return errors.New("recent charges are not in the order of the stream")
		}
		a.remember(recentCharge{ChargeFact: c})
	}
	return nil
}

func (a *Account) restoreHolds(s snapshot) error {
	if len(s.Open) > MaxOpenHolds {
		return errors.New("more open holds than allowed")
	}
	for _, h := range s.Open {
		if _, twice := a.open[h.ID]; twice || h.Left < 1 || h.Left > h.Credits || h.Credits > MaxCredits {
			return errors.New("damaged open hold")
		}
		if a.core.held += h.Left; a.core.held > MaxCredits {
			return errors.New("open holds exceed the largest amount")
		}
		a.open[h.ID] = h.hold
		if a.core.earliest.IsZero() || h.Deadline.Before(a.core.earliest) {
			a.core.earliest = h.Deadline
		}
	}
	for _, h := range s.Ended {
		a.ended[h.ID] = h.ending
		a.endedOrder = append(a.endedOrder, remembered{h.ID, h.Revision, h.At})
	}
	return nil
}

func (a *Account) restoreMoney(s snapshot) {
	for _, p := range s.Payments {
		a.payments[p.ID] = payment{
			granted: p.Granted, refunded: p.Refunded, returned: p.Returned, tax: p.Tax,
			paid: eventschemas.Money{Minor: p.Paid, Currency: p.Currency},
		}
	}
	for _, id := range s.Notes {
		a.notes[id] = struct{}{}
	}
	for _, g := range s.Grants {
		a.grants[g.ID] = g.Credits
	}
	for _, r := range s.Refunds {
		a.refunds[r.ID] = refund{
			paymentID: r.Payment, credits: r.Credits, money: eventschemas.Money{Minor: r.Minor, Currency: r.Currency},
			returned: r.Returned, reversed: r.Reversed, rest: r.Rest, restMoney: r.RestMoney,
		}
	}
	for _, f := range s.Fees {
		a.fees[f.ID] = f.fee
	}
	for _, k := range s.Keys {
		a.keys[k.ID] = k.key
	}
	for _, k := range a.keys {
		if !k.Revoked {
			a.core.validKeys++
		}
	}
}

func (a *Account) restoreCharges(s snapshot) {
	for _, c := range s.Charged {
		a.charged[c.Key] = c.keyed
		a.chargeKey[c.ChargeID] = c.Key
		a.joinKey(c.Key)
		a.chargedOrder = append(a.chargedOrder, remembered{c.Key, c.Revision, c.At})
	}
	for _, r := range s.Kept {
		a.kept[r.ID] = struct{}{}
	}
	a.keptOrder = s.Kept
	a.core.keysPast, a.core.keysAt = s.KeysPast, s.KeysAt.UTC()
	a.core.keptPast = s.KeptPast.UTC()
}
