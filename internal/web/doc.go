// Package web has what all HTTP servers of the program do alike: routing, the answer to a request, queries, and the
// forms, sessions and cookies of pages. It knows nothing about accounts or credits.
package web
