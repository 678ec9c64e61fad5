// Package assets stores pictures: small files that never change, named after their content.
//
// An asset's id is the lower-case hex SHA-256 of its bytes, and its key is ab/cd/<id>.<ext>, so that no
// folder grows large. Putting the same bytes twice is one object; nothing is ever rewritten with other
// content. Events carry ids, so an asset can be fetched, cached and served for ever; the sweeper deletes
// what no record refers to any more.
//
// The store is a gocloud.dev/blob bucket named by a URL. file:///folder is built in; another scheme is one
// import away, and must pass assetstest.Run.
package assets
