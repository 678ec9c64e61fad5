package assets

import (
	"errors"
	"fmt"
	"net/url"
)

// defaultRegion is what stores of other makers than Amazon expect when they have no regions.
const defaultRegion = "us-east-1"

// PrepareS3 checks the s3:// URL of a bucket and fills in what a store behind an endpoint of its own needs. No
// error of it, nor of whoever opens the URL afterwards, holds a key that somebody wrote into the URL.
func PrepareS3(u *url.URL) error {
	switch {
	case u.User != nil:
		u.User = nil // it must not be in an error
		return errors.New("keys do not belong in the URL of a bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile")
	case u.Host == "":
		return errors.New("the URL names no bucket; it is like s3://bucket?region=eu-central-1")
	case u.Path != "" && u.Path != "/":
		return fmt.Errorf("the URL of a bucket has no path; put assets below a prefix with s3://%s?prefix=%s/", u.Host, url.QueryEscape(u.Path[1:]))
	}
	q := u.Query()
	if q.Get("endpoint") == "" {
		return nil
	}
	if q.Get("region") == "" {
		q.Set("region", defaultRegion)
	}
	// Checksums in trailers are newer than many stores that speak S3.
	for _, name := range []string{"request_checksum_calculation", "response_checksum_validation"} {
		if q.Get(name) == "" {
			q.Set(name, "when_required")
		}
	}
	u.RawQuery = q.Encode()
	return nil
}
