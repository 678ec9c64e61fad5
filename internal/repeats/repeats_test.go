package repeats_test

import (
	"errors"
	"testing"
	"time"

	"letterhead/internal/repeats"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

func TestRequest_Repeated_GetsFirstAnswer(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		table := testmust.Get(repeats.New(t.Context(), store))(t)
		r := repeats.Request{Caller: "a", Key: "k", Hash: "1", At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
		begin := func(r repeats.Request, want repeats.Answer) {
			t.Helper()
			if got, err := table.Begin(t.Context(), r); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		begin(r, repeats.Answer{})
		begin(r, repeats.Answer{}) // it is running
		answer := repeats.Answer{Status: 201, Body: `{"balance":1}`}
		testmust.Succeed(t, table.Finish(t.Context(), r, answer))
		begin(r, answer)
		other := r
		other.Hash = "2"
		if _, err := table.Begin(t.Context(), other); !errors.Is(err, repeats.ErrMismatch) {
			t.Errorf("another request: %v, want ErrMismatch", err)
		}
		other.Caller = "b"
		begin(other, repeats.Answer{})
		testmust.Succeed(t, table.Release(t.Context(), other))
		other.Hash = "3" // the rejected request is forgotten
		begin(other, repeats.Answer{})
		later := r
		later.Hash, later.At = "4", r.At.Add(repeats.Window+time.Microsecond)
		begin(later, repeats.Answer{})
	})
}

func TestRelease_KeyOfAnotherRequest_Keeps(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		table := testmust.Get(repeats.New(t.Context(), store))(t)
		begin := func(r repeats.Request) (repeats.Answer, error) { return table.Begin(t.Context(), r) }
		running := repeats.Request{Caller: "a", Key: "k", Hash: "1", At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
		repeat := running
		repeat.At = running.At.Add(time.Second)
		for _, r := range []repeats.Request{running, repeat} {
			testmust.Succeed(t, testmust.Err(begin(r)))
		}
		testmust.Succeed(t, table.Release(t.Context(), repeat))
		other := repeats.Request{Caller: "a", Key: "k", Hash: "2", At: repeat.At}
		if _, err := begin(other); !errors.Is(err, repeats.ErrMismatch) {
			t.Errorf("after the release of a repeat, the key of the running request is free: %v", err)
		}
		// After the window the key is that of another request, which a late answer does not change.
		other.At = running.At.Add(repeats.Window + time.Second)
		testmust.Succeed(t, testmust.Err(begin(other)))
		testmust.Succeed(t, table.Finish(t.Context(), running, repeats.Answer{Status: 200, Body: "late"}))
		testmust.Succeed(t, table.Release(t.Context(), running))
		if got, err := begin(other); err != nil || got != (repeats.Answer{}) {
			t.Errorf("the other request: %+v, %v, want no answer yet", got, err)
		}
		if _, err := begin(running); !errors.Is(err, repeats.ErrMismatch) {
			t.Errorf("the key of the other request is free: %v", err)
		}
		testmust.Succeed(t, table.Release(t.Context(), other))
		if _, err := begin(running); err != nil {
			t.Errorf("the released key is not free: %v", err)
		}
	})
}
