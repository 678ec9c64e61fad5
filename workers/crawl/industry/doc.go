// Package industry says what trade a company is in: a taxonomy of two levels, with three ways into it that
// differ in certainty. A schema.org type or a GICS sub-industry names a class; words of several languages,
// weighed over the texts of a page, suggest one.
package industry
