package eventschemas_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"letterhead/eventschemas"
)

// A charge is encoded without encoding/json, whose bytes the stored chains contain.
func TestEncode_Charge_IsAsEncodingJSONWritesIt(t *testing.T) {
	texts := []string{
		"", "acme.com", "5f0c4d2e-7d1a-4f3b-9c55-0a1b2c3d4e5f", "bücher.example", `"quoted"`, `back\slash`, "<a&b>", "\x00", "tab\t", "\x7f",
		"\u2028", "\xff", "😀", strings.Repeat("long", 300), " ~",
	}
	numbers := []int64{0, 1, -1, 50, math.MaxInt64, math.MinInt64}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 5000 {
		text := func() string {
			if n < len(texts) { // first each in all fields
				return texts[n]
			}
			if random.IntN(3) > 0 {
				return texts[random.IntN(3)]
			}
			return texts[random.IntN(len(texts))]
		}
		var ev eventschemas.CreditsCharged
		for _, field := range reflect.ValueOf(&ev).Elem().Fields() { // also those added later
			switch field.Kind() {
			case reflect.String:
				field.SetString(text())
			case reflect.Int64:
				field.SetInt(numbers[random.IntN(len(numbers))])
			case reflect.Uint64:
				field.SetUint(random.Uint64() >> random.IntN(64))
			default:
				t.Fatalf("a field is a %s", field.Kind())
			}
		}
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(ev); err != nil {
			t.Fatal(err)
		}
		got, err := eventschemas.Encode(ev)
		if err != nil || string(got.Data)+"\n" != want.String() {
			t.Fatalf("Encode(%+v) = %s, %v\nwant %s", ev, got.Data, err, want.Bytes())
		}
	}
}
