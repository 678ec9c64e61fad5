package brands

import (
	"fmt"
	"testing"

	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

func benchmarkGet(b *testing.B, cold bool) {
	e := projectionstest.Open(b)
	m, err := New(Config{}, e.Store)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.Close)
	r, _ := e.Start(engine.Config{}, m)
	const brands = 100
	for i := range brands {
		domain := fmt.Sprintf("b%d.com", i)
		e.Events("brand-"+domain, at, imported(domain, domain))
	}
	e.CatchUp(r)
	n := 0
	for b.Loop() {
		domain := fmt.Sprintf("b%d.com", n%brands)
		n++
		if cold {
			m.cache.invalidate(domain)
		}
		if _, err := m.Get(b.Context(), domain); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGetHit measures an answer from the cache.
func BenchmarkGetHit(b *testing.B) { benchmarkGet(b, false) }

// BenchmarkGetMiss measures an answer from the tables.
func BenchmarkGetMiss(b *testing.B) { benchmarkGet(b, true) }
