package keys

import (
	"strconv"
	"testing"
)

// remember reads a key as recallAlone does.
func remember(a *alone, sum hash, k Key, found bool) {
	_, _, _, changes := a.find(sum)
	a.keep(sum, k, found, changes)
}

func TestAlone_RandomKeys_DisplaceNoKey(t *testing.T) {
	var a alone
	remember(&a, hash{1}, Key{ID: "k", AccountStatus: "active"}, true)
	for i := range 3 * maxUnknown {
		remember(&a, hash{2, byte(i), byte(i >> 8)}, Key{}, false)
	}
	if k, found, _, _ := a.find(hash{1}); !found || k.ID != "k" {
		t.Errorf("the key is %+v, %v", k, found)
	}
	if len(a.unknown) > maxUnknown {
		t.Errorf("%d unknown keys are in memory, want at most %d", len(a.unknown), maxUnknown)
	}
	for i := range 2 * maxRemembered {
		remember(&a, hash{3, byte(i), byte(i >> 8), byte(i >> 16)}, Key{ID: strconv.Itoa(i), AccountStatus: "active"}, true)
	}
	if len(a.keys) > maxRemembered {
		t.Errorf("%d keys are in memory, want at most %d", len(a.keys), maxRemembered)
	}
}

// A row that was read before a change was committed may arrive after it.
// Rule 9.
func TestAlone_RowReadBeforeAChange_IsNotKept(t *testing.T) {
	var a alone
	_, _, _, before := a.find(hash{1})
	a.forget(&news{keys: map[string]struct{}{"k": {}}, known: true})
	a.keep(hash{1}, Key{ID: "k", AccountStatus: "active"}, true, before)
	a.keep(hash{2}, Key{}, false, before)
	for _, sum := range []hash{{1}, {2}} {
		if k, _, known, _ := a.find(sum); known {
			t.Errorf("%v is known as %+v", sum[0], k)
		}
	}
}

// Two reads of a key may end in the other order. The row of the later one remains.
// Rule 9.
func TestAlone_EarlierReadEndsLast_LaterRowRemains(t *testing.T) {
	var a alone
	sum := hash{1}
	_, _, _, changes := a.find(sum)
	a.keep(sum, Key{ID: "k", AccountStatus: "active", Revoked: true}, true, changes)
	a.keep(sum, Key{ID: "k", AccountStatus: "active"}, true, changes)
	a.keep(sum, Key{}, false, changes)
	if k, found, _, _ := a.find(sum); !found || !k.Revoked {
		t.Errorf("the key is %+v, %v", k, found)
	}
}
