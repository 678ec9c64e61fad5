package assets

import (
	"errors"
	"fmt"
	"net/url"
)

// defaultRegion is the region that S3-compatible stores without regions expect.
const defaultRegion = "us-east-1"

// PrepareS3 validates the s3:// URL of a bucket and adds the settings that a store with a custom endpoint
// needs. Its errors contain no credentials, and neither do errors of opening the URL afterwards.
func PrepareS3(u *url.URL) error {
	switch {
	case u.User != nil:
		u.User = nil // must not be in an error
		return errors.New("the URL of a bucket must not contain keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile")
	case u.Host == "":
		return errors.New("the URL names no bucket; an example is s3://bucket?region=eu-central-1")
	case u.Path != "" && u.Path != "/":
		return fmt.Errorf(
			"the URL of a bucket must not have a path; to store assets below a prefix, use s3://%s?prefix=%s/",
			u.Host, url.QueryEscape(u.Path[1:]))
	}
	q := u.Query()
	if q.Get("endpoint") == "" {
		return nil
	}
	if q.Get("region") == "" {
		q.Set("region", defaultRegion)
	}
	// Many S3-compatible stores do not support checksums in trailers.
	for _, name := range []string{"request_checksum_calculation", "response_checksum_validation"} {
		if q.Get(name) == "" {
			q.Set(name, "when_required")
		}
	}
	u.RawQuery = q.Encode()
	return nil
}
