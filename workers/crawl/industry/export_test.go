package industry

// All lists the classes of the lower level.
func All() []*Class { return append([]*Class(nil), taxonomy().classes...) }

// BySlug returns a class of the lower level, or nil.
func BySlug(slug string) *Class {
	for _, c := range taxonomy().classes {
		if c.Slug == slug {
			return c
		}
	}
	return nil
}
