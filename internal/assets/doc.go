// Package assets stores pictures: small files that never change, named after their content.
//
// An asset's id is the lower-case hex SHA-256 of its bytes, and its key is ab/cd/<id>.<ext>, so that no
// folder grows large. Putting the same bytes twice is one object; nothing is ever rewritten with other
// content. Events carry ids, so an asset can be fetched, cached and served for ever; nobody deletes
// what no record refers to any more but an operator.
//
// The store is a gocloud.dev/blob bucket named by a URL; each kind passes assetstest.Run:
//
//	file:///folder
//	s3://bucket?region=eu-central-1                                          Amazon S3
//	s3://bucket?endpoint=https://minio.example.com:9000&use_path_style=true  MinIO and its like
//
// A bucket's URL may also have prefix=assets/ (put all keys below it), anonymous=true and profile=NAME.
// Keys come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), from the profile or from the
// machine's role, never from the URL.
package assets
