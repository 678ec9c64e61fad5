package brand

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"letterhead/domain/text"
	"letterhead/eventschemas"
)

// fields are the JSON names of the fields of a record, in their order. An override may fix each of them.
var fields = func() (names []string) {
	for f := range reflect.TypeFor[eventschemas.Record]().Fields() {
		names = append(names, f.Tag.Get("json"))
	}
	return names
}()

// Fields returns the names of the fields that may be overridden.
func Fields() []string { return slices.Clone(fields) }

// MaxReasonBytes limits the reason of an override.
const MaxReasonBytes = 200

// Override fixes one field of the record, whatever crawls find. The reason may be empty. Repeating an override is a
// no-op, unless it gives another reason.
//
// Errors: ErrWithdrawn, ErrNoSuchBrand, ErrInvalidField with the reason.
func (b *Brand) Override(field string, value json.RawMessage, reason string) ([]eventschemas.Event, error) {
	if err := b.exists(); err != nil {
		return nil, err
	}
	value, err := checkedValue(field, value)
	if err != nil {
		return nil, err
	}
	if len(reason) > MaxReasonBytes || !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) {
		return nil, fmt.Errorf("%w: the field reason takes at most %d bytes of text", ErrInvalidField, MaxReasonBytes)
	}
	ev := eventschemas.FieldOverridden{Field: field, Value: value, Reason: reason}
	old, ok := findOverride(b.s.Overrides, field)
	if ok && sameValue(field, old.Value, value) && (reason == "" || reason == old.Reason) {
		return nil, nil
	}
	if err := text.CheckKept("reason", reason); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidField, err)
	}
	return []eventschemas.Event{ev}, nil
}

// RemoveOverride lets crawls determine the field again. Without an override it is a no-op.
//
// Errors: ErrWithdrawn, ErrNoSuchBrand, ErrInvalidField.
func (b *Brand) RemoveOverride(field string) ([]eventschemas.Event, error) {
	if err := b.exists(); err != nil {
		return nil, err
	}
	if !slices.Contains(fields, field) {
		return nil, unknownField(field)
	}
	if _, ok := findOverride(b.s.Overrides, field); !ok {
		return nil, nil
	}
	return []eventschemas.Event{eventschemas.OverrideRemoved{Field: field}}, nil
}

// Overridden returns the names of the overridden fields, sorted.
func (b *Brand) Overridden() []string {
	out := make([]string, len(b.s.Overrides))
	for i, o := range b.s.Overrides {
		out[i] = o.Field
	}
	return out
}

// checkedValue returns the value without white space if the field accepts it: it decodes into the
// record's field, and the resulting event conforms to its schema (enums, patterns, ranges).
func checkedValue(field string, value json.RawMessage) (json.RawMessage, error) {
	if !slices.Contains(fields, field) {
		return nil, unknownField(field)
	}
	decoded, err := decodeField(field, value)
	if err == nil {
		err = check(decoded, false)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalidField, field, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, value); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalidField, field, err)
	}
	encoded, err := eventschemas.Encode(eventschemas.FieldOverridden{Field: field, Value: compact.Bytes()})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalidField, field, err)
	}
	if len(encoded.Data) > MaxRecordEventBytes {
		return nil, fmt.Errorf("%w: %s: %d bytes, at most %d", ErrInvalidField, field, len(encoded.Data),
			MaxRecordEventBytes)
	}
	if err := eventschemas.ValidateJSON(encoded.Type, encoded.SchemaVersion, encoded.Data); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalidField, field, err)
	}
	return compact.Bytes(), nil
}

func unknownField(field string) error {
	return fmt.Errorf("%w: there is no field %q; fields are %s", ErrInvalidField, field, strings.Join(fields, ", "))
}

func decodeField(field string, value json.RawMessage) (*eventschemas.Record, error) {
	wrapped, err := json.Marshal(map[string]json.RawMessage{field: value})
	if err != nil {
		return nil, err
	}
	var r eventschemas.Record
	if err := json.Unmarshal(wrapped, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// overridden returns the record with all overrides applied. An override that this release cannot read
// (a field of a newer release) is skipped rather than losing the brand.
func overridden(r eventschemas.Record, overrides []eventschemas.FieldOverridden) eventschemas.Record {
	for _, o := range overrides {
		from, err := decodeField(o.Field, o.Value)
		if i := slices.Index(fields, o.Field); err == nil && i >= 0 {
			reflect.ValueOf(&r).Elem().Field(i).Set(reflect.ValueOf(from).Elem().Field(i))
		}
	}
	return filled(r)
}

// sameValue compares the meaning, not the bytes: "<" and "\u003c" are the same string, and a stored
// state may contain either.
func sameValue(field string, a, b json.RawMessage) bool {
	x, errX := decodeField(field, a)
	y, errY := decodeField(field, b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func findOverride(in []eventschemas.FieldOverridden, field string) (eventschemas.FieldOverridden, bool) {
	for _, o := range in {
		if o.Field == field {
			return o, true
		}
	}
	return eventschemas.FieldOverridden{}, false
}

func withoutOverride(in []eventschemas.FieldOverridden, field string) []eventschemas.FieldOverridden {
	return slices.DeleteFunc(slices.Clone(in), func(o eventschemas.FieldOverridden) bool { return o.Field == field })
}

func withOverride(in []eventschemas.FieldOverridden, add eventschemas.FieldOverridden) []eventschemas.FieldOverridden {
	out := append(withoutOverride(in, add.Field), add)
	slices.SortFunc(out, func(a, b eventschemas.FieldOverridden) int { return strings.Compare(a.Field, b.Field) })
	return out
}
