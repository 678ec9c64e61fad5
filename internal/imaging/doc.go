// Package imaging converts untrusted images to images that are safe to serve, and analyzes their content.
//
// The format is determined from the first bytes (Probe), never from a name or media type, and the size is read from the
// header before memory is allocated. Rasters are decoded within pixel limits, animations to one picture, to one form
// (*image.NRGBA at the origin), and re-encoded. Vectors are only recognized here; package svg rebuilds them.
//
// The package limits the work of one call. The caller must limit concurrent calls: DecodeCost returns the memory of
// one, from the header, and scaling uses every core.
package imaging
