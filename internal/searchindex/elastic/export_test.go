package elastic

import "time"

// HasSeenFreeze reports whether this Index has found its generation frozen.
func (x *Index) HasSeenFreeze() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.thaw.since.IsZero()
}

// SeenFrozenFor makes a freeze that this Index has seen appear older by d.
func (x *Index) SeenFrozenFor(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.thaw.since = x.thaw.since.Add(-d)
}

const MaxFrozen = maxFrozen

// Read returns the cluster settings of a Config.
func (c Config) Read() (addresses []string, user, password, apiKey, alias string, replicas int, err error) {
	s, err := c.read()
	return s.addresses, s.user, s.password, s.apiKey, s.alias, s.replicas, err
}
