package assets

// contentTypes lists the formats that can be stored, with their media types. The extension of an asset
// is the format's name in a record.
var contentTypes = map[string]string{
	"svg":  "image/svg+xml",
	"png":  "image/png",
	"webp": "image/webp",
	"jpeg": "image/jpeg",
}

// ContentType returns the media type of an extension, and reports whether assets may have that extension.
func ContentType(ext string) (string, bool) {
	t, ok := contentTypes[ext]
	return t, ok
}

const idBytes = 64 // SHA-256 in hex

// ValidID reports whether id has the form of an asset id.
func ValidID(id string) bool {
	if len(id) != idBytes {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// key returns the key of an asset, or false if id or ext is not valid. The bucket only sees keys from this
// function, so a caller cannot inject a path.
func key(id, ext string) (string, bool) {
	if _, known := contentTypes[ext]; !known || !ValidID(id) {
		return "", false
	}
	return id[:2] + "/" + id[2:4] + "/" + id + "." + ext, true
}
