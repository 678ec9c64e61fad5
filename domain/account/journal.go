package account

import "slices"

// journal is what Rollback needs: the scalars and slices as they were, and one undo step for every map entry that was
// written. A tentative group appends to a slice or removes its front, but changes no entry in it.
type journal struct {
	core                 core
	steps                []func()
	ended, charged, kept []remembered
	reversed             []reversal
	recent               int // length of the recent charges
}

// Begin starts a tentative group: events applied from now on can be undone. Groups do not nest.
func (a *Account) Begin() {
	a.tentative = true
	a.journal.core = a.core
	a.journal.steps = a.journal.steps[:0]
	a.journal.ended, a.journal.charged = a.endedOrder, a.chargedOrder
	a.journal.kept, a.journal.reversed = a.keptOrder, a.reversedOrder
	a.journal.recent = len(a.recent)
}

// Commit keeps the events applied since Begin.
func (a *Account) Commit() {
	a.endGroup()
	a.forget()
}

// Rollback restores exactly the state at Begin.
func (a *Account) Rollback() {
	if !a.tentative {
		return
	}
	for _, v := range slices.Backward(a.journal.steps) {
		v()
	}
	a.undoRecent(a.journal.recent)
	a.core = a.journal.core
	a.endedOrder, a.chargedOrder = a.journal.ended, a.journal.charged
	a.keptOrder, a.reversedOrder = a.journal.kept, a.journal.reversed
	a.endGroup()
}

func (a *Account) endGroup() {
	a.tentative = false
	clear(a.journal.steps) // drop references held by the journal
	a.journal = journal{steps: a.journal.steps[:0]}
}

// put writes a map entry of the account and records its undo step.
func put[K comparable, V any](a *Account, m map[K]V, k K, v V) {
	stepBack(a, m, k)
	m[k] = v
}

// remove deletes a map entry of the account and records its undo step.
func remove[K comparable, V any](a *Account, m map[K]V, k K) {
	stepBack(a, m, k)
	delete(m, k)
}

func stepBack[K comparable, V any](a *Account, m map[K]V, k K) {
	if !a.tentative {
		return
	}
	old, had := m[k]
	a.journal.steps = append(a.journal.steps, func() {
		if had {
			m[k] = old
		} else {
			delete(m, k)
		}
	})
}
