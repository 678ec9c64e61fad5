package lookup

import (
	"context"
	"sync"
)

// keyLocks are locks by key, which waiters get in no particular order. Look-ups of one unknown domain hold its lock
// while they check whether a crawl is running, so that in this process only the first of them takes a unit of the
// service-wide limit and the others join its crawl. Between processes the log decides.
type keyLocks struct {
	mu   sync.Mutex
	used map[string]*keyLock
}

type keyLock struct {
	token chan struct{} // has one token unless the lock is held
	users int           // the holder and those who wait; the last of them removes the lock
}

// lock waits for the lock of a key. It returns the function that unlocks it, which may be called more
// than once, or ctx.Err().
func (k *keyLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	l := k.use(key)
	select {
	case <-l.token:
		return sync.OnceFunc(func() {
			l.token <- struct{}{}
			k.leave(key, l)
		}), nil
	case <-ctx.Done():
		k.leave(key, l)
		return nil, ctx.Err()
	}
}

func (k *keyLocks) use(key string) *keyLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.used == nil {
		k.used = map[string]*keyLock{}
	}
	l := k.used[key]
	if l == nil {
		l = &keyLock{token: make(chan struct{}, 1)}
		l.token <- struct{}{}
		k.used[key] = l
	}
	l.users++
	return l
}

func (k *keyLocks) leave(key string, l *keyLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.used, key)
	}
}
