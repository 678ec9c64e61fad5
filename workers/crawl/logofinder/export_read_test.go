package logofinder

import "context"

// Read opens a candidate's file and returns its image. Errors: as Open and As.
func Read(ctx context.Context, draw Renderer, c Candidate, data []byte) (*Image, error) {
	f, err := Open(ctx, draw, data, c.Part, c.Crop != nil)
	if err != nil {
		return nil, err
	}
	return f.As(c)
}
