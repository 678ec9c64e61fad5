package jsontext_test

import (
	"encoding/json"
	"testing"

	"letterhead/workers/crawl/jsontext"
)

func FuzzDepth(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":"]}"}]}`, `"\"[["`, `]]][[[`, `[[[[[[[[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 8
		got := jsontext.Depth(data, limit)
		if got < 0 || got > limit+1 {
			t.Fatalf("%q: %d", data, got)
		}
		var v any
		if json.Unmarshal(data, &v) == nil && got < min(depth(v), limit+1) { // more with a repeated key
			t.Fatalf("%q: %d, it is %d deep", data, got, depth(v))
		}
	})
}

// depth returns the depth of a decoded value. An empty one also counts.
func depth(v any) int {
	most := 0
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			most = max(most, depth(x))
		}
	case []any:
		for _, x := range v {
			most = max(most, depth(x))
		}
	default:
		return 0
	}
	return most + 1
}
