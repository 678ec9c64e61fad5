package elastic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"letterhead/internal/searchindex"
)

// Rebuild is a generation that is being built.
type Rebuild struct {
	index *Index
	g     generation

	mu     sync.Mutex
	at     uint64      // its checkpoint, which is stored when it is published
	frozen *generation // the generation that it replaces, once that is frozen
	over   bool
}

var _ searchindex.Generation = (*Rebuild)(nil)

// Rebuild implements searchindex.Index. Leftovers of dead rebuilds are dropped, and so is the
// unfinished rebuild of another process: the newest one wins.
func (x *Index) Rebuild(ctx context.Context) (searchindex.Generation, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	if _, err := x.prepared(ctx); err != nil {
		return nil, err
	}
	r := &Rebuild{index: x}
	if err := x.reserve(r); err != nil {
		return nil, err
	}
	g, err := x.begin(ctx)
	if err != nil {
		x.release(r)
		return nil, fmt.Errorf("start a rebuild: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.g = g; r.over { // closed in the meantime
		return nil, errors.Join(searchindex.ErrClosed, x.abandonDetached(g))
	}
	return r, nil
}

func (x *Index) reserve(r *Rebuild) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return searchindex.ErrClosed
	case x.rebuilding != nil:
		return fmt.Errorf("a rebuild is running: %w", searchindex.ErrInvalid)
	}
	x.rebuilding = r
	return nil
}

func (x *Index) release(r *Rebuild) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.rebuilding == r {
		x.rebuilding = nil
	}
}

// begin drops the generations that are not live and creates one. If two nodes begin at the same time each may miss the
// other's generation, but the later of them then sees both, and the larger name wins.
func (x *Index) begin(ctx context.Context) (generation, error) {
	if err := x.putTemplate(ctx); err != nil { // its settings may have changed
		return generation{}, err
	}
	for range maxRaces {
		c, err := x.look(ctx)
		if err != nil {
			return generation{}, err
		}
		if err := x.endAll(ctx, c, func(g generation) bool { return !g.live }); err != nil {
			return generation{}, err
		}
		g := generation{name: x.names.next(c.last + 1), number: c.last + 1, log: x.used().Log}
		g.write, g.build = own(g.name, writeMark), own(g.name, buildMark)
		err = x.create(ctx, g, object{g.write: object{}, g.build: object{}}, object{"refresh_interval": buildRefresh})
		if err != nil && !isRejection(err, alreadyExists) { // created by this node, if the first response was lost
			return generation{}, err
		}
		newest, err := x.newest(ctx, g)
		if err == nil && newest {
			if g.log != "" {
				err = x.save(ctx, g, logID, "", object{fieldLog: g.log})
			}
			if err == nil {
				return g, nil
			}
		}
		if err = errors.Join(err, x.abandonDetached(g)); err != nil {
			return generation{}, err
		}
	}
	return generation{}, fmt.Errorf("%w: other nodes start rebuilds at the same time", searchindex.ErrUnavailable)
}

// newest reports whether a new generation is the newest of those that are being built, and drops the others if so.
func (x *Index) newest(ctx context.Context, g generation) (bool, error) {
	c, err := x.look(ctx)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(c.all, func(o generation) bool { return o.build != "" && after(o, g) }) {
		return false, nil
	}
	return true, x.endAll(ctx, c, func(o generation) bool { return o.build != "" && after(g, o) })
}

// abandonDetached abandons a generation even if the caller's context has ended.
func (x *Index) abandonDetached(g generation) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return x.abandon(ctx, g)
}

// after reports whether a counts as newer than b.
func after(a, b generation) bool {
	return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name)) > 0
}

// endAll drops some of the generations that are not live.
func (x *Index) endAll(ctx context.Context, c cluster, which func(generation) bool) error {
	for _, g := range c.all {
		if !which(g) {
			continue
		}
		if err := x.end(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rebuild) Apply(ctx context.Context, docs []searchindex.Document, checkpoint uint64) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	items, err := r.index.itemsOf(docs)
	if err != nil {
		return err
	}
	if err := r.index.bulkApart(ctx, r.g, items); err != nil {
		return void(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = max(r.at, checkpoint)
	return nil
}

// void replaces an error because a generation that is being built no longer exists.
func void(err error) error {
	if errors.Is(err, errNotWritable) || isRejection(err, noIndex) {
		return fmt.Errorf("rebuild: %w: %w", searchindex.ErrReplaced, err)
	}
	return err
}

func (r *Rebuild) usable(ctx context.Context) error { return unless(ctx, &r.mu, &r.over) }

func (r *Rebuild) Freeze(ctx context.Context) (uint64, error) {
	if err := r.usable(ctx); err != nil {
		return 0, err
	}
	x := r.index
	c, err := x.look(ctx)
	if err != nil {
		return 0, err
	}
	if c.live == nil {
		return 0, fmt.Errorf("freeze: %w: there is no live generation", searchindex.ErrUnavailable)
	}
	old := *c.live
	frozen := own(old.name, frozenMark)
	actions := append([]object{addAlias(old.name, frozen)}, withoutWriters(old)...)
	old.write, old.frozen = "", frozen
	// From here on Discard thaws it, even if the response to the next request is lost.
	r.mu.Lock()
	r.frozen = &old
	r.mu.Unlock()
	if err := x.aliases(ctx, "freeze", actions...); isRejection(err, noAlias) {
		// Either another node was faster, or this is the repeat of a request whose response was lost.
		if c, look := x.look(ctx); look != nil || c.live == nil || c.live.frozen != frozen {
			return 0, errors.Join(err, look)
		}
	} else if err != nil {
		return 0, err
	}
	if err := x.block(ctx, old.name); err != nil {
		return 0, err
	}
	last, err := x.savedIn(ctx, old.name, checkpointID)
	return last.Checkpoint, err
}

func (r *Rebuild) Publish(ctx context.Context) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	x := r.index
	if err := r.finish(ctx); err != nil {
		return fmt.Errorf("publish: %w", void(err))
	}
	c, err := x.look(ctx)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if err := x.aliases(ctx, "publish", r.swap(c)...); err != nil {
		if err := r.outcome(err); err != nil {
			return err
		}
	}
	r.end()
	live := r.g
	live.live, live.build = true, ""
	x.bind(live)
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if c, err = x.look(rest); err != nil {
		x.log.Warn("old search index not removed", "error", err) // the next rebuild removes it
		return nil
	}
	x.clear(rest, c)
	return nil
}

// outcome returns nil if the swap was done although its request failed: perhaps only the response was
// lost, and a repeat finds the swap done. It checks even if the caller's context has ended.
func (r *Rebuild) outcome(failed error) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	c, err := r.index.look(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("publish: %w; it is unknown whether it succeeded: %w", failed, err)
	case c.live != nil && c.live.name == r.g.name:
		return nil
	case isRejection(failed, noAlias) || isRejection(failed, noIndex):
		if err := r.usable(ctx); err != nil { // Close was faster
			return fmt.Errorf("publish: %w: %w", err, failed)
		}
		return fmt.Errorf("publish: %w: %w", searchindex.ErrReplaced, failed)
	}
	return failed
}

// finish stores the checkpoint and makes all documents visible.
func (r *Rebuild) finish(ctx context.Context) error {
	r.mu.Lock()
	at := r.at
	r.mu.Unlock()
	if err := r.index.putCheckpoint(ctx, r.g, at); err != nil {
		return err
	}
	if err := r.index.configure(ctx, "publish", r.g.name, object{"index.refresh_interval": liveRefresh}); err != nil {
		return err
	}
	answer, err := ask[struct {
		Shards struct{ Failed int } `json:"_shards"`
	}](ctx, r.index.client,
		request{op: "refresh", method: http.MethodPost, path: "/" + r.g.name + "/_refresh", write: true})
	if err == nil && answer.Shards.Failed > 0 {
		err = fmt.Errorf("refresh: %w: %d copies failed", searchindex.ErrUnavailable, answer.Shards.Failed)
	}
	return err
}

// swap returns the actions of Publish. The call fails as a whole if the old generation is not in the state in which the
// rebuild left it, or if the new one was abandoned, which means that it is or will be deleted.
func (r *Rebuild) swap(c cluster) []object {
	x := r.index
	actions := []object{addAlias(r.g.name, x.names.alias), removeAlias(r.g.name, r.g.build)}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.frozen != nil:
		actions = append(actions, removeAlias(r.frozen.name, x.names.alias),
			removeAlias(r.frozen.name, r.frozen.frozen))
	case c.live != nil:
		actions = append(append(actions, removeAlias(c.live.name, x.names.alias)), withoutWriters(*c.live)...)
	}
	return actions
}

// withoutWriters returns the actions that remove the aliases for writing: also that of a rebuild that died or is void.
func withoutWriters(g generation) (actions []object) {
	for _, alias := range []string{g.write, g.frozen} {
		if alias != "" {
			actions = append(actions, removeAlias(g.name, alias))
		}
	}
	return actions
}

// end marks the rebuild as over, and reports whether it was not over before.
func (r *Rebuild) end() bool {
	r.mu.Lock()
	first := !r.over
	r.over = true
	r.mu.Unlock()
	r.index.release(r)
	return first
}

func (r *Rebuild) Discard() error {
	if !r.end() {
		return nil
	}
	// Clean up even if the rebuild failed because its context ended.
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	r.mu.Lock()
	g, frozen := r.g, r.frozen
	r.mu.Unlock()
	var err error
	if frozen != nil {
		if err = r.index.unfreeze(ctx, *frozen); isRejection(err, noAlias) || isRejection(err, noIndex) {
			err = nil // another node thawed it, it was never frozen, or it was replaced
		}
	}
	if g.name != "" {
		err = errors.Join(err, r.index.abandon(ctx, g)) // which spares it if Publish succeeded after all
	}
	return err
}
