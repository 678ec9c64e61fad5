package eventschemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"time"
)

// Check verifies the table before the first event is read, and returns all errors together. Names must
// be unique and not empty, no upcaster may be missing, every version must have a schema file with the
// type as title, and the current struct must survive a round trip through JSON.
func (r *Registry) Check() error {
	var errs []error
	seen := make(map[string]bool, len(r.definitions))
	for i := range r.definitions {
		d := &r.definitions[i]
		if d.name == "" {
			errs = append(errs, fmt.Errorf("%s has no wire name", d.goType))
		}
		if seen[d.name] {
			errs = append(errs, fmt.Errorf("%s is defined twice", d.name))
		}
		seen[d.name] = true
		if d.from > Format {
			errs = append(errs,
				fmt.Errorf("%s begins with data format %d, but this release writes format %d", d.name, d.from, Format))
		}
		errs = append(errs, r.checkVersions(d)...)
		if err := r.checkRoundTrip(d); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.name, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Registry) checkVersions(d *Definition) []error {
	var errs []error
	for v := 1; v <= d.version(); v++ {
		if v < d.version() {
			errs = append(errs, r.checkChange(d, v)...)
		}
		if err := r.checkSchemaFile(d.name, v); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// checkChange checks the conversion from a version to the next one and, for a change of this release, back.
func (r *Registry) checkChange(d *Definition, v int) []error {
	var errs []error
	c := d.changes[v-1]
	if c.Up == nil {
		errs = append(errs, fmt.Errorf("%s has no upcaster from version %d to %d", d.name, v, v+1))
	}
	if c.Format < 1 || c.Format > Format || v > 1 && c.Format <= d.changes[v-2].Format {
		errs = append(errs, fmt.Errorf("%s version %d begins with data format %d; it must be later than that of the previous version and at most %d, the format of this release",
			d.name, v+1, c.Format, Format))
	}
	if c.Format == Format && c.Down == nil {
		errs = append(errs, fmt.Errorf("%s has no Down from version %d to %d, which nodes of the previous release need until the upgrade is finished", d.name, v+1, v))
	}
	return errs
}

// checkSchemaFile reads only the head of the file; the first validation compiles it.
func (r *Registry) checkSchemaFile(eventType string, version int) error {
	file := schemaFile(eventType, version)
	data, err := fs.ReadFile(r.files, file)
	if err != nil {
		return fmt.Errorf("%s version %d has no schema: %w", eventType, version, err)
	}
	var head struct {
		ID    string `json:"$id"`
		Title string `json:"title"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("schema %s: %w", file, err)
	}
	if head.Title != eventType || head.ID != schemaBase+file {
		return fmt.Errorf("schema %s has the title %q and the $id %q", file, head.Title, head.ID)
	}
	return nil
}

// checkRoundTrip encodes and decodes the event with every field set, to detect fields that would lose
// data: fields without a name, private fields, and types that JSON cannot represent.
func (r *Registry) checkRoundTrip(d *Definition) error {
	full := reflect.New(d.goType).Elem()
	if err := fill(full, d.goType.String()); err != nil {
		return err
	}
	ev := full.Interface().(Event)
	data, err := marshal(normalized(ev))
	if err != nil {
		return err
	}
	back, err := d.decode(data)
	if err != nil {
		return fmt.Errorf("its JSON does not decode: %w", err)
	}
	if !reflect.DeepEqual(back, normalized(ev)) {
		return fmt.Errorf("its JSON %s decodes to a different value", data)
	}
	return nil
}

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[JSONText]()
)

// fill sets every field below v to a nonzero value. It rejects types that events must not contain: maps
// (their order is random), interfaces and private fields.
func fill(v reflect.Value, path string) error {
	switch v.Type() {
	case timeType:
		v.Set(reflect.ValueOf(time.Date(2026, 11, 21, 8, 44, 1, 234567000, time.UTC)))
		return nil
	case rawType:
		v.Set(reflect.ValueOf(JSONText(`{"a":[1,null]}`)))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("a <b> & \"c\" \u2028 ü")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1<<53 + 1) // a conversion to float would lose the last bit
	case reflect.Uint64:
		v.SetUint(1<<64 - 1)
	case reflect.Float64:
		v.SetFloat(0.1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return fill(v.Index(0), path+"[]")
	case reflect.Struct:
		return fillFields(v, path)
	default:
		return fmt.Errorf("%s is a %s, which an event must not contain", path, v.Kind())
	}
	return nil
}

func fillFields(v reflect.Value, path string) error {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || field.Tag.Get("json") == "" {
			return fmt.Errorf("%s.%s has no JSON name", path, field.Name)
		}
		if err := fill(v.Field(i), path+"."+field.Name); err != nil {
			return err
		}
	}
	return nil
}
