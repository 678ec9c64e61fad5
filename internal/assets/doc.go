// Package assets stores images: small immutable files, named after their content.
//
// An asset's id is the lower-case hex SHA-256 of its bytes, and its key is ab/cd/<id>.<ext>, so that no
// folder becomes large. Storing the same bytes twice creates one object, and no object is ever overwritten
// with other content, so responses can be cached forever. Events refer to assets by id. Only operators
// delete assets, after no record refers to them.
//
// The store is a gocloud.dev/blob bucket named by a URL; each kind passes assetstest.Run:
//
//	file:///folder
//	s3://bucket?region=eu-central-1                                          Amazon S3
//	s3://bucket?endpoint=https://minio.example.com:9000&use_path_style=true  MinIO and similar stores
//
// A bucket's URL may also have prefix=assets/ (put all keys below it), anonymous=true and
// profile=NAME. Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), from
// the profile or from the machine's role, never from the URL.
package assets
