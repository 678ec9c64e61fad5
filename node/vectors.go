package node

import (
	"context"
	"fmt"
	"image"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"time"

	"letterhead/internal/resvg"
	"letterhead/internal/variants"
	"letterhead/readapi/logo"
)

// vectors draws SVG files once the renderer's module is compiled, which takes about a second on a first start. A node
// compiles it while its other parts start, and is ready when both are done.
type vectors struct {
	ready    chan struct{}
	renderer *resvg.Renderer
	err      error
}

// openDrawing opens the vector renderer, which all parts share.
func (n *Node) openDrawing() {
	n.drawing.Lock()
	defer n.drawing.Unlock()
	n.openRenderer()
}

func (n *Node) openRenderer() {
	if n.vectors == nil {
		n.vectors = openVectors(filepath.Join(n.Config.CachePath(), "resvg"), n.logger, n.kill)
		n.closing(n.vectors.close)
	}
}

// awaitVectors waits until vectors can be drawn, if this node draws any. Errors: as vectors.await.
func (n *Node) awaitVectors(ctx context.Context) error {
	n.drawing.Lock()
	v := n.vectors
	n.drawing.Unlock()
	return v.await(ctx)
}

// openLogos opens the logo renderer, which all parts share.
func (n *Node) openLogos() (*logo.Renderer, error) {
	n.drawing.Lock()
	defer n.drawing.Unlock()
	if n.logos != nil {
		return n.logos, nil
	}
	vectors := n.parts.Vectors
	if vectors == nil {
		n.openRenderer()
		vectors = n.vectors
	}
	drawn, err := variants.New(variants.Config{
		MemoryBytes: n.Config.LogoCacheBytes, Folder: filepath.Join(n.Config.CachePath(), "logos"), DiskBytes: n.Config.LogoDiskBytes,
		MemoryBudget: n.memory, MakeTimeout: n.parts.LogoTime, Logger: n.logger, Registerer: n.metrics,
	})
	if err != nil {
		return nil, err
	}
	n.closing(func() error { drawn.Close(); return nil })
	n.logos, err = logo.NewRenderer(n.Assets, vectors, drawn)
	return n.logos, err
}

// openVectors compiles the renderer in the background, with a cache in a folder. It calls failed if that is impossible,
// because a node that cannot draw vectors would silently find worse logos.
func openVectors(cache string, logger *slog.Logger, failed func(error)) *vectors {
	v := &vectors{ready: make(chan struct{})}
	go func() {
		defer close(v.ready)
		// Compiling ends by itself, and needs no context.
		if v.renderer, v.err = resvg.New(context.Background(), resvg.Config{CacheDir: cache}); v.err != nil {
			logger.Error("vectors cannot be drawn", "error", v.err)
			failed(fmt.Errorf("vectors cannot be drawn: %w", v.err))
		}
		debug.FreeOSMemory() // compiling leaves some 250 MB behind, which a quiet node would keep for minutes
	}()
	return v
}

// await waits until vectors can be drawn; a nil v draws none. Errors: ctx.Err(), or why the renderer
// could not be opened.
func (v *vectors) await(ctx context.Context) error {
	if ctx.Err() != nil || v == nil {
		return ctx.Err()
	}
	select {
	case <-v.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	if v.err != nil {
		return fmt.Errorf("vectors cannot be drawn: %w", v.err)
	}
	return nil
}

// Render implements logofinder.Renderer.
func (v *vectors) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	if err := v.await(ctx); err != nil {
		return nil, err
	}
	return v.renderer.Render(ctx, svg, side)
}

// closeTime bounds the wait for images that are being drawn; none takes longer than resvg.DefaultTimeout.
const closeTime = 10 * time.Second

func (v *vectors) close() error {
	<-v.ready
	if v.renderer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime) // the requests have ended
	defer cancel()
	return v.renderer.Close(ctx)
}
