package room_test

import (
	"context"
	"errors"
	"testing"

	"letterhead/internal/room"
)

const mib = 1 << 20

func TestRoom_TakenUntilGivenBack(t *testing.T) {
	t.Parallel()
	r := room.New(90 * mib)
	first, second, small := r.Part(40*mib), r.Part(30*mib), r.Part(4*mib)
	if !first.Try() || second.Try() {
		t.Fatal("60 MiB are for what is large")
	}
	if !small.Try() {
		t.Error("what is small waits for what is large")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := second.Wait(gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	first.Give()
	if !second.Try() {
		t.Error("what was given back is not there")
	}
	if second.Bytes() != 30*mib {
		t.Error(second.Bytes())
	}
}

func TestRoom_PartLargerThanRoom_TakesAll(t *testing.T) {
	t.Parallel()
	r := room.New(90 * mib)
	huge := r.Part(900 * mib)
	if !huge.Try() || r.Part(5*mib).Try() {
		t.Error("it has less than all")
	}
	huge.Give()
	if !r.Part(60 * mib).Try() {
		t.Error("it gave back less than it had")
	}
}

func TestRoom_ZeroPart_TakesNothing(t *testing.T) {
	t.Parallel()
	var p room.Part
	if !p.Try() || p.Wait(t.Context()) != nil {
		t.Error("nothing waits")
	}
	p.Give()
}
