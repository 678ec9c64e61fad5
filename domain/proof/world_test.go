package proof_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

const (
	origin  = "brands.example.com/ledger"
	account = "9f0c4a52-6f0e-4c35-9a55-1d1c2d3e4f51"
)

var november = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// world is a ledger with several accounts, one of which has events, and a log of checkpoints.
type world struct {
	t       testing.TB
	key     string // private
	public  []string
	events  []proof.Event
	log     []proof.Hash
	last    proof.Checkpoint
	leaves  []proof.Account // of the last checkpoint
	current *proof.Note
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t}
	w.rotate(origin)
	return w
}

// rotate makes a new key; the public keys of the old ones are kept.
func (w *world) rotate(name string) {
	w.t.Helper()
	private, err := proof.NewKey(name)
	w.ok(err)
	public, err := proof.PublicKey(private)
	w.ok(err)
	w.key, w.public = private, append([]string{public}, w.public...)
}

func (w *world) ok(err error) {
	w.t.Helper()
	testmust.Succeed(w.t, err)
}

// keys returns all public keys.
func (w *world) keys() note.Verifiers {
	w.t.Helper()
	keys, err := proof.ParseKeys(strings.Join(w.public, "\n"))
	w.ok(err)
	return keys
}

// append appends events to the account's stream.
func (w *world) append(at time.Time, bodies ...eventschemas.Event) {
	w.t.Helper()
	for _, body := range bodies {
		enc, err := eventschemas.Encode(body)
		w.ok(err)
		n := uint64(len(w.events))
		e := proof.Event{ChainLink: eventschemas.ChainLink{
			Stream: "account-" + account, Revision: n, EventID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, n)),
			Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: at, Actor: "operator:cli", RequestID: fmt.Sprintf("r-%d <\"é\">", n), Data: enc.Data,
		}}
		e.Hash = e.Next(w.head())
		w.events = append(w.events, e)
	}
}

func (w *world) head() (head proof.Hash) {
	if n := len(w.events); n > 0 {
		head = w.events[n-1].Hash
	}
	return head
}

// checkpoint makes a checkpoint in which the account is one of five.
func (w *world) checkpoint(at time.Time) *proof.Note {
	w.t.Helper()
	w.leaves = nil
	var hashes []proof.Hash
	for i := range 5 {
		leaf := proof.Account{ID: fmt.Sprintf("%d", i), Revision: 7, Head: proof.Hash{byte(i)}}
		if i == 3 {
			leaf = proof.Account{ID: account, Revision: uint64(len(w.events) - 1), Head: w.head()}
		}
		w.leaves = append(w.leaves, leaf)
		hashes = append(hashes, w.leafHash(leaf.Leaf()))
	}
	root, err := proof.Root(hashes)
	w.ok(err)
	w.last = proof.Checkpoint{Time: at, Position: uint64(100 * (len(w.log) + 1)), Accounts: 5, Root: root}
	w.log = append(w.log, w.leafHash(w.last.Leaf()))
	signer, err := note.NewSigner(w.key)
	w.ok(err)
	root, err = proof.Root(w.log)
	w.ok(err)
	text, err := proof.Sign(signer, uint64(len(w.log)), root)
	w.ok(err)
	w.current, err = proof.Open(text, w.keys())
	w.ok(err)
	return w.current
}

func (w *world) leafHash(leaf []byte, err error) proof.Hash {
	w.t.Helper()
	w.ok(err)
	return proof.LeafHash(leaf)
}

// proof returns a proof of a month at the last checkpoint.
func (w *world) proof(month time.Time, since *proof.Note) string {
	w.t.Helper()
	var hashes []proof.Hash
	for _, leaf := range w.leaves {
		hashes = append(hashes, w.leafHash(leaf.Leaf()))
	}
	p := &proof.Proof{Month: month, Note: w.current, Since: since, Checkpoint: w.last, Account: w.leaves[3], Index: 3}
	var err error
	p.Accounts, err = proof.Path(hashes, 3)
	w.ok(err)
	p.Log, err = proof.Path(w.log, uint64(len(w.log)-1))
	w.ok(err)
	if since != nil {
		p.Consistency, err = proof.Consistency(w.log, since.Size)
		w.ok(err)
	}
	var file bytes.Buffer
	w.ok(proof.Write(&file, p, w.stored(p.Account.Revision)))
	return file.String()
}

func (w *world) stored(last uint64) iter.Seq2[proof.Event, error] {
	return func(yield func(proof.Event, error) bool) {
		for _, e := range w.events[:last+1] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// lines returns the events as a proof has them, whatever their amounts are.
func (w *world) lines() string {
	var text strings.Builder
	for _, e := range w.events {
		fmt.Fprintf(&text, `{"revision":%d,"id":"%s","type":%q,"schema_version":%d,"occurred_at":"%s","actor":%s,"request_id":%s,"hash":"%x","data":%s}`+"\n",
			e.Revision, e.EventID, e.Type, e.SchemaVersion, e.OccurredAt.Format("2006-01-02T15:04:05.000000Z"), w.quoted(e.Actor), w.quoted(e.RequestID), e.Hash, e.Data)
	}
	return text.String()
}

func (w *world) quoted(text string) []byte {
	w.t.Helper()
	quoted, err := json.Marshal(text)
	w.ok(err)
	return quoted
}

func (w *world) check(file string, since *proof.Note) (*proof.Report, error) {
	var earlier *proof.Earlier
	if since != nil {
		earlier = &proof.Earlier{Note: since}
	}
	return proof.Check(strings.NewReader(file), w.keys(), earlier)
}

// story returns a world with events in October and November, and a checkpoint of December.
func story(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.append(november.AddDate(0, -1, 3), eventschemas.AccountOpened{AccountID: account, Holder: "h", Plan: "free"},
		eventschemas.CreditsGranted{GrantID: "g1", Kind: "free", Credits: 50})
	w.checkpoint(november.AddDate(0, 0, 1))
	w.append(november.AddDate(0, 0, 2), eventschemas.CreditsGranted{GrantID: "g2", Kind: "topup", Credits: 1000, PaymentID: "pi_1", Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}, Tax: 782})
	for day := 3; day < 6; day++ {
		id := fmt.Sprintf("c%d", day)
		w.append(november.AddDate(0, 0, day), eventschemas.CreditsCharged{ChargeID: id, Credits: 1, RequestID: id, BrandID: "b", Domain: "acme.com", RecordRevision: 1, KeyID: "k1"})
	}
	w.append(november.AddDate(0, 0, 7), eventschemas.ChargeReversed{ChargeID: "c5", Credits: 1, RequestID: "c5", Reason: "client_gone"})
	w.checkpoint(november.AddDate(0, 1, 0))
	w.append(november.AddDate(0, 1, 1), eventschemas.PaymentRefunded{RefundID: "re_1", PaymentID: "pi_1", Credits: 100, Money: &eventschemas.Money{Minor: 490, Currency: "EUR"}})
	w.checkpoint(november.AddDate(0, 1, 2))
	return w
}
