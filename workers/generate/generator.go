package generate

import (
	"container/heap"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/internal/eventlog"
)

const (
	// growth is by how much fewer events than on average the history begins with, and by how much more it ends with:
	// use grows to four times its first rate.
	growth = 0.6
	// The popularity of accounts and brands falls as in Zipf's law, with a flatter beginning.
	zipfExponent, zipfOffset = 1.1, 10
	// brandCount is the number of brands that are looked up.
	brandCount = 5000
	// maxPicks bounds the search for an account that may use the service.
	maxPicks = 8
	// maxIdle bounds the decisions in a row that lead to no event. Most accounts can do most things, so more than a
	// few are rare.
	maxIdle = 10_000
	// maxPending bounds the follow-ups that are waiting. Without room, nothing is followed up, and no hold is placed.
	maxPending = 1 << 16
)

// generator makes a history, one decision at a time.
type generator struct {
	opts    Options
	random  *rand.Rand
	from    time.Time
	length  time.Duration
	ranks   []int      // the accounts after the first, by popularity
	popular *rand.Zipf // a rank
	brands  []look
	looked  *rand.Zipf // a brand

	customers []*customer // in the order in which they opened
	pending   followUps
	at        time.Time           // of the current decision
	made      int                 // events so far
	out       []eventlog.Recorded // events of the current step
	err       error
}

// look is what a look-up of a brand returns.
type look struct {
	brandID, domain string
	revision        uint64
}

func newGenerator(o Options) *generator {
	o.Until = o.Until.UTC().Truncate(time.Microsecond)
	from := o.Until.AddDate(0, -o.Months, 0)
	random := rand.New(rand.NewPCG(o.Seed, 0))
	g := &generator{opts: o, random: random, from: from, length: o.Until.Sub(from)}
	g.ranks = random.Perm(o.Accounts - 1)
	g.popular = rand.NewZipf(random, zipfExponent, zipfOffset, uint64(max(len(g.ranks)-1, 0)))
	g.looked = rand.NewZipf(random, zipfExponent, zipfOffset, brandCount-1)
	for i := range brandCount {
		domain := fmt.Sprintf("brand-%d.example", i)
		if len(o.Brands) > 0 {
			domain = o.Brands[i%len(o.Brands)]
		}
		g.brands = append(g.brands, look{brand.ID(domain).String(), domain, 1 + random.Uint64N(9)})
	}
	return g
}

// next returns the events of the next decision. They are valid until the next call.
func (g *generator) next() ([]eventlog.Recorded, error) {
	g.out = g.out[:0]
	for range maxIdle {
		g.step()
		if g.err != nil {
			return nil, g.err
		}
		if len(g.out) > 0 {
			return g.out, nil
		}
	}
	return nil, fmt.Errorf("generate a history: %d decisions after event %d led to no event", maxIdle, g.made)
}

// step makes one decision: the earliest follow-up that is due, or else a new one.
func (g *generator) step() {
	now := g.now()
	if len(g.pending) > 0 && !g.pending[0].at.After(now) {
		due, _ := heap.Pop(&g.pending).(followUp)
		g.at = due.at
		due.run()
		return
	}
	g.at = now
	perAccount := float64(g.opts.Events) / float64(g.opts.Accounts)
	// All accounts are open after half of the events.
	if float64(g.made) >= float64(len(g.customers))*perAccount/2 && len(g.customers) < g.opts.Accounts {
		g.open()
		return
	}
	// Each account makes each change of its life about as often as rates says, however often it is used.
	r := g.random.Float64() * perAccount
	for _, change := range changes {
		if r -= change.rate; r < 0 {
			change.make(g, g.customers[g.random.IntN(len(g.customers))])
			return
		}
	}
	g.use(g.pick())
}

// now returns a time for the next event: the events divide the history into as many parts, which become shorter.
func (g *generator) now() time.Time {
	u := (float64(g.made) + g.random.Float64()) / float64(g.opts.Events)
	at := g.from.Add(time.Duration(u * (1 + growth - growth*u) * float64(g.length))).Truncate(time.Microsecond)
	if at.Before(g.at) {
		return g.at
	}
	return at
}

// pick returns an account that uses the service.
func (g *generator) pick() *customer {
	first := g.customers[0]
	if len(g.ranks) == 0 || g.random.Float64() < g.opts.Hot {
		return first
	}
	for range maxPicks {
		if i := 1 + g.ranks[g.popular.Uint64()]; i < len(g.customers) && g.customers[i].Status() == account.Active {
			return g.customers[i]
		}
	}
	if c := g.customers[g.random.IntN(len(g.customers))]; c.Status() == account.Active {
		return c
	}
	return first
}

// record applies the outcome of a decision and keeps its events, and reports whether there are any. A rejected command
// has none. Neither has one with more events than the history needs.
func (g *generator) record(c *customer, request commands.Request, out account.Outcome, rejection error) bool {
	if errors.Is(rejection, account.ErrInvalid) {
		g.err = fmt.Errorf("generate event %d: %w", g.made+1, rejection)
	}
	if rejection != nil || len(out.Events) == 0 || len(out.Events) > g.opts.Events-g.made {
		return false
	}
	for _, ev := range out.Events {
		c.Apply(ev, g.at)
		p, err := commands.ProposeAccountEvent(c.Account, ev, request, g.at)
		if err != nil {
			g.err = fmt.Errorf("generate event %d: %w", g.made+1, err)
			return false
		}
		g.made++
		g.out = append(g.out, eventlog.Recorded{Proposed: p, Stream: c.stream, Revision: c.Revisions() - 1,
			Position: eventlog.Position(g.made)})
	}
	return true
}

// followUp is a decision that follows from an earlier one.
type followUp struct {
	at  time.Time
	run func()
}

// later runs a decision after a time.
func (g *generator) later(after time.Duration, run func()) {
	if len(g.pending) < maxPending {
		heap.Push(&g.pending, followUp{g.at.Add(after.Truncate(time.Microsecond)), run})
	}
}

// between returns a random duration.
func (g *generator) between(least, most time.Duration) time.Duration {
	return least + time.Duration(g.random.Int64N(int64(most-least)))
}

// chance returns true with the given probability.
func (g *generator) chance(share float64) bool { return g.random.Float64() < share }

func (g *generator) uuid() string {
	var id uuid.UUID
	g.fill(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4
	return id.String()
}

// fill fills b, whose length is a multiple of 8, with random bytes.
func (g *generator) fill(b []byte) {
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], g.random.Uint64())
	}
}

// hex returns as many random bytes, a multiple of 8, in hex.
func (g *generator) hex(bytes int) string {
	b := make([]byte, bytes)
	g.fill(b)
	return hex.EncodeToString(b)
}

// followUps is a heap.
type followUps []followUp

func (f followUps) Len() int           { return len(f) }
func (f followUps) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f followUps) Less(i, j int) bool { return f[i].at.Before(f[j].at) }

func (f *followUps) Push(x any) {
	if next, ok := x.(followUp); ok {
		*f = append(*f, next)
	}
}

func (f *followUps) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}
