package readapi

import (
	"context"
	"sync"
)

// gates admit one caller at a time per key, in no particular order. Look-ups of one unknown domain
// pass through its gate one by one while they check whether a crawl is running, so that in this
// process only the first of them takes a unit of the service-wide limit and the others join its crawl.
// Between processes the log decides.
type gates struct {
	mu   sync.Mutex
	open map[string]*gate
}

type gate struct {
	turn  chan struct{} // has one token
	users int           // inside or waiting; the last one to leave removes the gate
}

// enter waits for the caller's turn and returns the function that ends it, which may be called more
// than once; or ctx.Err().
func (g *gates) enter(ctx context.Context, key string) (leave func(), err error) {
	at := g.join(key)
	select {
	case <-at.turn:
		return sync.OnceFunc(func() {
			at.turn <- struct{}{}
			g.forget(key, at)
		}), nil
	case <-ctx.Done():
		g.forget(key, at)
		return nil, ctx.Err()
	}
}

func (g *gates) join(key string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[string]*gate{}
	}
	at := g.open[key]
	if at == nil {
		at = &gate{turn: make(chan struct{}, 1)}
		at.turn <- struct{}{}
		g.open[key] = at
	}
	at.users++
	return at
}

func (g *gates) forget(key string, at *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(g.open, key)
	}
}
