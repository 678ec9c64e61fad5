// Package dashboard serves the pages on which customers see and manage their accounts: balance, usage, keys, ledger,
// its replay, statements, look-ups, purchases and notices.
//
// A person signs in with a one-time link, never by typing a key. The browser then has the token of a session in a
// cookie. Pages are rendered by html/template, which escapes by context, and are complete without scripts; htmx only
// replaces a part of a page by the answer to the same request.
package dashboard
