package crawl

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"testing"

	"golang.org/x/sync/semaphore"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/logofinder"
)

// waitFor waits until n waiters are queued.
func (g *gate) waitFor(n int) {
	for {
		g.mu.Lock()
		have := len(g.waiting)
		g.mu.Unlock()
		if have == n {
			return
		}
	}
}

func TestGate_Waiting_LowestRankFirst(t *testing.T) {
	g := newGate(1)
	if !g.enter(t.Context(), rankRead) {
		t.Fatal("an empty gate did not admit")
	}
	order := make(chan int, 5)
	for i, rank := range []int{rankBanner, rankRead + 1, rankStore, rankRead, rankPrimary} {
		go func() {
			if g.enter(t.Context(), rank) {
				order <- rank
				g.leave()
			}
		}()
		g.waitFor(i + 1)
	}
	gone, leave := context.WithCancel(t.Context())
	refused := make(chan bool)
	go func() { refused <- !g.enter(gone, rankPrimary) }()
	g.waitFor(6)
	leave()
	if !<-refused {
		t.Error("a canceled waiter was admitted")
	}
	g.leave()
	for _, want := range []int{rankPrimary, rankStore, rankRead, rankRead + 1, rankBanner} {
		if got := <-order; got != want {
			t.Fatalf("rank %d came before %d", got, want)
		}
	}
	if !g.enter(gone, rankRead) {
		t.Error("the slot was not released")
	}
}

func TestHeld_Pages_StayWithinLimits(t *testing.T) {
	common := semaphore.NewWeighted(commonBytes)
	greedy, modest := &held{common: common}, &held{common: common}
	if !greedy.take(ownBytes) || !greedy.take(commonBytes) || greedy.take(1) || !greedy.short.Load() {
		t.Error("a crawl alone must hold exactly its own and the common share")
	}
	if !modest.take(ownBytes) || modest.take(1) {
		t.Error("a second crawl must hold exactly its own share")
	}
	greedy.give(commonBytes / 2)
	if !modest.take(commonBytes / 2) {
		t.Error("released memory cannot be reserved")
	}
	greedy.end()
	modest.end()
	if !common.TryAcquire(commonBytes) {
		t.Error("memory is still reserved after the end")
	}
}

// disc returns an image of a disc, large enough that two of them exceed one crawl's share.
func disc(t *testing.T, radius int) *logofinder.Image {
	t.Helper()
	const side = 640
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			if dx, dy := x-side/2, y-side/2; dx*dx+dy*dy < radius*radius || x < radius && y < radius/2 {
				img.SetNRGBA(x, y, color.NRGBA{uint8(radius), 40, 160, 255})
			}
		}
	}
	var b bytes.Buffer
	testmust.Succeed(t, png.Encode(&b, img))
	file := testmust.Get(logofinder.Open(t.Context(), nil, b.Bytes(), nil, false))(t)
	return testmust.Get(file.As(logofinder.Candidate{URL: &url.URL{Scheme: "https", Host: "acme.com"}, Kind: logofinder.Mark, Score: float64(radius)}))(t)
}

func TestKeep_NoRoom_DropsWorseFormFirst(t *testing.T) {
	full := semaphore.NewWeighted(1)
	full.TryAcquire(1)
	big := disc(t, 300)
	same := *big
	for name, c := range map[string]struct {
		second *logofinder.Image
		err    error
	}{
		"the same drawing": {&same, nil},
		"another drawing":  {disc(t, 190), errMemoryLimit},
	} {
		t.Run(name, func(t *testing.T) {
			f := &found{read: make([]*logofinder.Image, 2), rejected: make([]error, 2)}
			h := &held{common: full}
			f.keep(h, 0, big)
			if f.read[0] == nil {
				t.Fatalf("no room for the first image: %v", f.rejected)
			}
			f.keep(h, 1, c.second)
			if f.read[1] != nil || f.rejected[1] == nil || errors.Is(f.rejected[1], errMemoryLimit) != (c.err != nil) {
				t.Errorf("second image: %v", f.rejected[1])
			}
			if h.own != weight(big) {
				t.Errorf("%d bytes are held, want the bytes of one image", h.own)
			}
		})
	}
}

func TestGate_LongWait_YieldsToLowerRankOnly(t *testing.T) {
	g := newGate(1)
	g.enter(t.Context(), rankPrimary)
	in := make(chan int, 2)
	for i, rank := range []int{rankRead, rankPrimary} {
		go func() {
			if g.enter(t.Context(), rank) {
				in <- rank
				g.leave()
			}
		}()
		g.waitFor(i + 1)
	}
	if !g.yield(t.Context(), rankStore) || len(in) != 1 || <-in != rankPrimary {
		t.Error("another crawl's primary logo was not first")
	}
	if !g.yield(t.Context(), rankStore) || len(in) != 0 {
		t.Error("a job that may wait took the slot")
	}
	g.leave()
	<-in
}
