// Package industry determines the industry of a company: a taxonomy of two levels, with three sources that differ in
// certainty. A schema.org type or a GICS sub-industry names a class; words of several languages, weighed over the texts
// of a page, suggest one.
package industry
