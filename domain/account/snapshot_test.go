package account

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// full returns an account in which every part of the state is used.
func full(t testing.TB) *Account {
	s := given(t, opened, paid("p1", 50), granted(5), held("h1", 3), charged("r1", "h1", "a"), held("h2", 1), held("h3", 1),
		released("h3", 1, causeExpired), keyedCharge("r2", keyA, requestA), charged("r3", "", ""),
		eventschemas.ChargeReversed{ChargeID: charged("r3", "", "").ChargeID, Credits: 1, RequestID: "r3", Reason: ReasonOperator},
		eventschemas.ChargeKept{ChargeID: charged("r2", "", "").ChargeID, RequestID: "r4"},
		eventschemas.PaymentRefunded{RefundID: "f1", PaymentID: "p1", Credits: 2},
		eventschemas.KeyIssued{KeyID: "k1", Hash: keyA, Last4: "abcd", Kind: "secret"},
		limited("k2", start.Add(time.Hour), []string{ScopeSearch}, []string{"https://acme.com"}),
		eventschemas.KeyRevoked{KeyID: "k1"}, eventschemas.KeyLimitSet{KeyID: "k2", Limit: 9, Period: "day"},
		eventschemas.CreditsGranted{GrantID: "p2", Kind: KindTopup, Credits: 50, PaymentID: "p2", Money: euros(100), Tax: 16}, refunded("f2", "p2", 10, euros(20)),
		eventschemas.PaymentFeeRecorded{FeeID: "e1", PaymentID: "p2", Money: *euros(7)})
	s.account.Link(eventschemas.Hash{1, 2, 3})
	return s.account
}

func TestSnapshot_RoundTrip(t *testing.T) {
	a := full(t)
	data := marshal(t, a)
	b := New(testID)
	testmust.Succeed(t, b.UnmarshalBinary(data))
	if again := marshal(t, b); !bytes.Equal(data, again) {
		t.Fatalf("the restored account encodes as\n%s\nwant\n%s", again, data)
	}
	if b.Head() != a.Head() || b.Revisions() != a.Revisions() || !b.LastAt().Equal(a.LastAt()) || b.Held() != a.Held() ||
		b.Plan() != a.Plan() || b.Holder() != a.Holder() || b.Remembered() != a.Remembered() {
		t.Fatalf("the account was restored as %+v", b.core)
	}
	// Derived state is restored, too: overdue holds, the charge of a key, the number of valid keys.
	s := &scene{t: t, account: b, now: start.Add(time.Minute)}
	s.when(clientGone("r2", start.Add(9*time.Second))).rejected(ErrChargeKept)
	s.now = start.Add(time.Hour)
	s.when(releaseOverdue).then(released("h1", 2, causeExpired), released("h2", 1, causeExpired)).
		when(withKey("r9", keyA, requestA)).isRepeated().
		when(withKey("r9", itemOf(keyA, 1), requestB)).rejected(ErrIdempotencyMismatch).
		when(capturing("r1", "h1", "a")).isRepeated()
	s.when(refundMoney("f3", "p2", 40, euros(81))).rejected(ErrRefundTooLarge).
		when(refundMoney("f2", "p2", 10, euros(21))).rejected(ErrPaymentMismatch).
		when(feeOf("e1", "p2", *euros(7))).isRepeated().
		when(feeOf("e1", "p2", *euros(8))).rejected(ErrPaymentMismatch)
	if b.core.validKeys != 1 {
		t.Fatalf("%d valid keys, want 1", b.core.validKeys)
	}
}

// restored continues with the account of a snapshot.
func (s *scene) restored() *scene {
	s.t.Helper()
	a := New(testID)
	testmust.Succeed(s.t, a.UnmarshalBinary(marshal(s.t, s.account)))
	s.account = a
	return s
}

var versionField = fmt.Sprintf(`"fold_version":%d`, FoldVersion)

func TestUnusableSnapshots(t *testing.T) {
	good := string(marshal(t, full(t)))
	change := func(old, replacement string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the snapshot does not contain %s", old)
		}
		return strings.Replace(good, old, replacement, 1)
	}
	for name, data := range map[string]string{
		"empty":             "",
		"null":              "null",
		"other version":     change(versionField, `"fold_version":1`),
		"no version":        change(versionField+`,`, ``),
		"unknown field":     change(`{"fold_version"`, `{"extra":1,"fold_version"`),
		"unknown status":    change(`"status":"active"`, `"status":"asleep"`),
		"short head":        change(`"head":"01`, `"head":"`),
		"head is not hex":   change(`"head":"01`, `"head":"zz`),
		"balance":           change(`"balance":91`, `"balance":9007199254740992`),
		"something follows": good + "{}",
		"cut":               good[:len(good)-2],
		"hold of nothing":   change(`"left":2`, `"left":0`),
		"hold past credits": change(`"left":2`, `"left":4`),
		"hold twice":        change(`{"id":"h2"`, `{"id":"h1"`),
		"charge of nothing": change(`"recent":[{"charge":"`+charged("r1", "h1", "a").ChargeID+`","credits":1`, `"recent":[{"charge":"c","credits":0`),
		"nameless charge":   change(`"recent":[{"charge":"`+charged("r1", "h1", "a").ChargeID, `"recent":[{"charge":"`),
		"charge of the future": change(`"record_revision":7,"revision":9,"at":"2026-11-03T09:30:10Z"}]`,
			`"record_revision":7,"revision":99,"at":"2026-11-03T09:30:10Z"}]`),
		"charges out of order": change(`"record_revision":7,"revision":9,"at":"2026-11-03T09:30:10Z"}]`,
			`"record_revision":7,"revision":2,"at":"2026-11-03T09:30:10Z"}]`),
	} {
		t.Run(name, func(t *testing.T) {
			a := New(testID)
			if err := a.UnmarshalBinary([]byte(data)); !errors.Is(err, ErrSnapshot) {
				t.Fatalf("error = %v", err)
			}
			if a.Revisions() != 0 || a.Balance() != 0 || len(a.open) != 0 {
				t.Fatal("a rejected snapshot changed the account")
			}
		})
	}
}

func FuzzUnmarshalSnapshot(f *testing.F) {
	f.Add(marshal(f, full(f)))
	f.Add(marshal(f, New(testID)))
	f.Add([]byte(`{` + versionField + `,"id":"` + testID + `","status":"","head":"` + strings.Repeat("0", 64) + `"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := New(testID)
		if err := a.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatalf("UnmarshalBinary = %v", err)
			}
			return
		}
		// An accepted snapshot must allow decisions, further folding, rollback and encoding without a panic.
		before, err := a.MarshalBinary()
		if err != nil {
			return // a year past 9999
		}
		s := &scene{t: t, account: a, now: start}
		a.Begin()
		for _, c := range []command{charge("r1"), hold1("h1"), release("h2"), grant("p1", 1), refundOf("f9", "p1", 0),
			withKey("r2", keyA, requestA), releaseOverdue, issueKey("k1", keyA), revokeKey("k2"), closeAccount} {
			c(s)
			s.and(s.out.Events...)
		}
		a.Rollback()
		after, err := a.MarshalBinary()
		if err != nil || !bytes.Equal(before, after) {
			t.Fatalf("rollback: %v\n%s\n%s", err, before, after)
		}
		b := New(testID)
		if err := b.UnmarshalBinary(after); err != nil {
			t.Fatalf("the encoded snapshot cannot be decoded: %v\n%s", err, after)
		}
	})
}
