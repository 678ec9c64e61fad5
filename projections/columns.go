package projections

import (
	"fmt"
	"time"
)

// Column is a column of a Keyed table, and where its value is in R: the key or the rest of a row.
type Column[R any] struct {
	Name string
	Type string // as in CREATE TABLE
	// Value returns what is stored, and Into what a stored value is scanned into.
	Value, Into func(r *R) any
}

const (
	text   = "TEXT NOT NULL"
	number = "BIGINT NOT NULL"
)

// Text is a column of texts.
func Text[R any, T ~string](name string, at func(r *R) *T) Column[R] {
	return Column[R]{name, text, func(r *R) any { return string(*at(r)) }, func(r *R) any { return at(r) }}
}

// Number is a column of whole numbers.
func Number[R any, T ~int | ~int64 | ~uint64](name string, at func(r *R) *T) Column[R] {
	return Column[R]{name, number, func(r *R) any { return int64(*at(r)) }, func(r *R) any { return at(r) }}
}

// Flag is a column that is 1 for true and 0 for false.
func Flag[R any](name string, at func(r *R) *bool) Column[R] {
	value := func(r *R) any {
		if *at(r) {
			return int64(1)
		}
		return int64(0)
	}
	return Column[R]{name, number, value, func(r *R) any { return at(r) }}
}

// Real is a column of floating-point numbers.
func Real[R any](name string, at func(r *R) *float64) Column[R] {
	return Column[R]{name, "DOUBLE PRECISION NOT NULL", func(r *R) any { return *at(r) },
		func(r *R) any { return at(r) }}
}

// Time is a column of microseconds since 1970.
func Time[R any](name string, at func(r *R) *time.Time) Column[R] {
	return Column[R]{name, number, func(r *R) any { return at(r).UnixMicro() },
		func(r *R) any { return (*moment)(at(r)) }}
}

// TimeOrZero is a Time that is 0 for the zero time.
func TimeOrZero[R any](name string, at func(r *R) *time.Time) Column[R] {
	value := func(r *R) any {
		if at(r).IsZero() {
			return int64(0)
		}
		return at(r).UnixMicro()
	}
	return Column[R]{name, number, value, func(r *R) any { return (*momentOrZero)(at(r)) }}
}

// TimeOrNull is a Time that is NULL for the zero time.
func TimeOrNull[R any](name string, at func(r *R) *time.Time) Column[R] {
	value := func(r *R) any {
		if at(r).IsZero() {
			return nil
		}
		return at(r).UnixMicro()
	}
	return Column[R]{name, "BIGINT", value, func(r *R) any { return (*momentOrZero)(at(r)) }}
}

// TextKey is the only column of a key that is a text.
func TextKey(name string) []Column[string] {
	return []Column[string]{Text(name, func(k *string) *string { return k })}
}

// NumberKey is the only column of a key that is a number.
func NumberKey(name string) []Column[uint64] {
	return []Column[uint64]{Number(name, func(k *uint64) *uint64 { return k })}
}

// moment is a time that is scanned from microseconds since 1970.
type moment time.Time

func (m *moment) Scan(stored any) error {
	micros, ok := stored.(int64)
	if !ok {
		return fmt.Errorf("time is %T, not a number of microseconds", stored)
	}
	*m = moment(time.UnixMicro(micros).UTC())
	return nil
}

// momentOrZero is a moment that is zero for 0 and NULL.
type momentOrZero time.Time

func (m *momentOrZero) Scan(stored any) error {
	if stored == nil || stored == int64(0) {
		*m = momentOrZero{}
		return nil
	}
	return (*moment)(m).Scan(stored)
}
