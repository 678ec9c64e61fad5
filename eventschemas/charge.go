package eventschemas

import "strconv"

// encode returns the event as encoding/json does, without reflection. It returns false if a text may need an escape.
func (ev *CreditsCharged) encode() (data []byte, plain bool) {
	data, plain = make([]byte, 0, 512), true
	text := func(name, value string) { // name ends with a quote
		for i := range len(value) {
			c := value[i]
			plain = plain && c >= ' ' && c <= '~' && c != '"' && c != '\\'
		}
		data = append(append(append(data, name...), value...), '"')
	}
	optional := func(name, value string) {
		if value != "" {
			text(name, value)
		}
	}
	text(`{"charge_id":"`, ev.ChargeID)
	data = strconv.AppendInt(append(data, `,"credits":`...), ev.Credits, 10)
	text(`,"request_id":"`, ev.RequestID)
	text(`,"brand_id":"`, ev.BrandID)
	text(`,"domain":"`, ev.Domain)
	data = strconv.AppendUint(append(data, `,"record_revision":`...), ev.RecordRevision, 10)
	optional(`,"hold_id":"`, ev.HoldID)
	optional(`,"item":"`, ev.Item)
	optional(`,"idempotency_key_hash":"`, ev.IdempotencyKeyHash)
	optional(`,"request_hash":"`, ev.RequestHash)
	optional(`,"key_id":"`, ev.KeyID)
	return append(data, '}'), plain
}
