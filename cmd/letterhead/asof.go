package main

import (
	"fmt"
	"time"

	"letterhead/adminapi"
)

// parsePast is adminapi.ParseMoment for the option --as-of.
func parsePast(text string, now time.Time) (adminapi.Moment, error) {
	at, err := adminapi.ParseMoment(text, now)
	if err != nil {
		err = usageError{fmt.Errorf("--as-of %w", err)}
	}
	return at, err
}
