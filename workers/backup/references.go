package backup

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
)

// references calls found for every asset that an event refers to. A damaged event refers to nothing,
// because it cannot be served either.
//
// Errors: ErrNewer.
func references(e *eventlog.Recorded, found func(assetKey)) error {
	switch e.Type {
	case eventschemas.CrawlSucceeded{}.EventType(), eventschemas.BrandImported{}.EventType(),
		eventschemas.FieldOverridden{}.EventType():
	default:
		return nil
	}
	ev, err := eventschemas.Decode(e.Type, e.SchemaVersion, e.Data)
	switch {
	case errors.Is(err, eventschemas.ErrUnknownVersion), errors.Is(err, eventschemas.ErrUnknownType):
		return fmt.Errorf("%s, revision %d: %w: %w", e.Stream, e.Revision, ErrNewer, err)
	case err != nil:
		return nil
	}
	switch ev := ev.(type) {
	case eventschemas.CrawlSucceeded:
		ofRecord(ev.Record.Logos, ev.Record.Images, found)
	case eventschemas.BrandImported:
		ofRecord(ev.Record.Logos, ev.Record.Images, found)
	case eventschemas.FieldOverridden:
		ofOverride(ev, found)
	}
	return nil
}

// ofOverride reads a value as the record will, which also ignores values of another type.
func ofOverride(ev eventschemas.FieldOverridden, found func(assetKey)) {
	var logos []eventschemas.Logo
	var images []eventschemas.Image
	switch ev.Field {
	case "logos":
		if json.Unmarshal(ev.Value, &logos) != nil {
			return
		}
	case "images":
		if json.Unmarshal(ev.Value, &images) != nil {
			return
		}
	}
	ofRecord(logos, images, found)
}

func ofRecord(logos []eventschemas.Logo, images []eventschemas.Image, found func(assetKey)) {
	each := func(formats []eventschemas.Asset) {
		for _, a := range formats {
			_, known := assets.ContentType(a.Format)
			id, err := hex.DecodeString(a.ID)
			if err != nil || !known || !assets.ValidID(a.ID) {
				continue // no store can hold it
			}
			found(assetKey{id: [32]byte(id), ext: a.Format})
		}
	}
	for _, l := range logos {
		each(l.Formats)
	}
	for _, i := range images {
		each(i.Formats)
	}
}
