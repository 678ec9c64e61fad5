package engine

import (
	"errors"
	"fmt"
	"regexp"

	"letterhead/projections"
)

// maxVersions limits the versions in one release: the current one and the previous one.
const maxVersions = 2

var word = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)

func validate(p projections.Projection, format int) error {
	var errs []error
	if !word.MatchString(p.Name()) {
		errs = append(errs, fmt.Errorf("name %q is not a short lower-case word", p.Name()))
	}
	if p.Handle() == nil {
		errs = append(errs, errors.New("no handle"))
	}
	versions := p.Versions()
	if len(versions) == 0 || len(versions) > maxVersions {
		errs = append(errs, fmt.Errorf("%d versions; a release carries 1 to %d", len(versions), maxVersions))
	}
	for i, v := range versions {
		if v.Number < 1 || i > 0 && (v.Number >= versions[i-1].Number || v.Format > versions[i-1].Format) {
			errs = append(errs, fmt.Errorf("version %d is out of order", v.Number))
		}
		if v.Format > format {
			errs = append(errs, fmt.Errorf("version %d begins with data format %d, this release has format %d",
				v.Number, v.Format, format))
		}
		if len(v.Streams) == 0 || v.NewFold == nil || len(v.Tables) == 0 {
			errs = append(errs, fmt.Errorf("version %d has no streams, no fold or no tables", v.Number))
		}
		for _, t := range v.Tables {
			if !word.MatchString(t.Name) || t.Name == projections.PositionWord || t.Create == "" || len(t.Key) == 0 {
				errs = append(errs,
					fmt.Errorf("version %d: table %q has a bad name, no CREATE or no key", v.Number, t.Name))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("projection %q: %w", p.Name(), err)
	}
	return nil
}
