package eventschemas

import "strconv"

// encode returns the event as encoding/json encodes it, without reflection. It returns false if a text has characters
// that JSON might escape.
func (ev *CreditsCharged) encode() ([]byte, bool) {
	w := plainJSON{data: make([]byte, 0, 512), plain: true}
	w.text(`{"charge_id":"`, ev.ChargeID)
	w.data = strconv.AppendInt(append(w.data, `,"credits":`...), ev.Credits, 10)
	w.text(`,"request_id":"`, ev.RequestID)
	w.text(`,"brand_id":"`, ev.BrandID)
	w.text(`,"domain":"`, ev.Domain)
	w.data = strconv.AppendUint(append(w.data, `,"record_revision":`...), ev.RecordRevision, 10)
	w.optional(`,"hold_id":"`, ev.HoldID)
	w.optional(`,"item":"`, ev.Item)
	w.optional(`,"idempotency_key_hash":"`, ev.IdempotencyKeyHash)
	w.optional(`,"request_hash":"`, ev.RequestHash)
	w.optional(`,"key_id":"`, ev.KeyID)
	return append(w.data, '}'), w.plain
}

// plainJSON writes JSON whose texts need no escapes.
type plainJSON struct {
	data  []byte
	plain bool // false after a text that may need them
}

// text appends a text after its name, which ends with the quote.
func (w *plainJSON) text(name, value string) {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			w.plain = false
		}
	}
	w.data = append(append(append(w.data, name...), value...), '"')
}

func (w *plainJSON) optional(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}
