// Package journal exports the journal: the double entry that domain/books derives from the events of all accounts, in
// money and in credits.
//
// An export depends on nothing but its options and the events of the log up to its head, so two exports without an
// event between them are equal byte by byte. The memory that it takes grows with the number of accounts, their grants
// and the months of their assertions, not with the number of events.
package journal
