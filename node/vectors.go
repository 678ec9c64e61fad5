package node

import (
	"context"
	"errors"
	"fmt"
	"image"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/config"
	"letterhead/internal/imaging"
	"letterhead/internal/membudget"
	"letterhead/internal/resvg"
	"letterhead/internal/telemetry"
	"letterhead/internal/variants"
	"letterhead/projections/brands"
	"letterhead/readapi/logo"
)

// vectors draws SVG files once the renderer's module is compiled, which takes about a second on a first start. A node
// is ready when that is done too.
type vectors struct {
	ready    chan struct{}
	stop     context.CancelFunc // ends the wait before compiling
	renderer *resvg.Renderer
	err      error
}

// drawing draws vectors and logos. A command may ask for it at any time.
type drawing struct {
	config  config.Config
	parts   Parts
	stores  *Stores
	memory  *membudget.Budget // for decoded images of crawls and logos
	logger  *slog.Logger
	metrics telemetry.Metrics
	life    *lifecycle
	// built returns when the read models of a node in a folder are built. Compiling the renderer takes 250 MB, and so
	// does building them; they do not need it at once.
	built func(context.Context)
	// heavy is held while the renderer is compiled, and while the starter index is imported, which takes as much.
	heavy sync.Mutex

	mu      sync.Mutex
	vectors *vectors       // nil until something is drawn, and with Parts.Vectors
	logos   *logo.Renderer // nil until a logo is drawn
}

// open opens the vector renderer, which all parts share.
func (d *drawing) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.openRenderer()
}

func (d *drawing) openRenderer() {
	if d.vectors == nil {
		d.vectors = openVectors(filepath.Join(d.config.CachePath(), "resvg"), d.built, &d.heavy, d.logger, d.life.kill)
		d.life.closing(d.vectors.close)
	}
}

// await waits until vectors can be drawn, if this node draws any. Errors: as vectors.await.
func (d *drawing) await(ctx context.Context) error {
	d.mu.Lock()
	v := d.vectors
	d.mu.Unlock()
	return v.await(ctx)
}

// openLogos opens the logo renderer, which all parts share.
func (d *drawing) openLogos() (*logo.Renderer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logos != nil {
		return d.logos, nil
	}
	vectors := d.parts.Vectors
	if vectors == nil {
		d.openRenderer()
		vectors = d.vectors
	}
	drawn, err := variants.New(variants.Config{
		MemoryBytes: d.config.LogoCacheBytes, MemoryBudget: d.memory, MakeTimeout: d.parts.LogoTime, Logger: d.logger,
		Registerer: d.metrics,
	})
	if err != nil {
		return nil, err
	}
	d.life.closing(func() error { drawn.Close(); return nil })
	d.logos, err = logo.NewRenderer(d.stores.Assets, vectors, drawn)
	return d.logos, err
}

// openVectors compiles the renderer in the background, with a cache in a folder, once wait returns, and holds heavy
// meanwhile. It calls failed if that is impossible, because a node that cannot draw vectors would silently find worse
// logos.
func openVectors(cache string, wait func(context.Context), heavy sync.Locker, logger *slog.Logger,
	failed func(error)) *vectors {
	ctx, stop := context.WithCancel(context.Background())
	v := &vectors{ready: make(chan struct{}), stop: stop}
	go func() {
		defer close(v.ready)
		if wait(ctx); ctx.Err() != nil {
			v.err = ctx.Err()
			return
		}
		heavy.Lock()
		defer heavy.Unlock()
		if v.err = ctx.Err(); v.err != nil {
			return
		}
		debug.FreeOSMemory() // of the builds
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

func (v *vectors) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	if err := v.await(ctx); err != nil {
		return nil, err
	}
	return v.renderer.Render(ctx, svg, side)
}

// closeTime bounds the wait for images that are being drawn; none takes longer than resvg.DefaultTimeout.
const closeTime = 10 * time.Second

func (v *vectors) close() error {
	v.stop()
	<-v.ready
	if v.renderer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime) // the requests have ended
	defer cancel()
	return v.renderer.Close(ctx)
}

// DrawnLogo is a drawn logo that a command prints, perhaps in another process.
type DrawnLogo struct {
	Body   []byte `json:"body"` // base64 in JSON
	Format string `json:"format"`
	Size   string `json:"size"`
	From   string `json:"from"`
}

// DrawLogo draws a logo from the index, as the endpoint does for a client without a key.
func (n *Node) DrawLogo(ctx context.Context, domain string, o logo.Options) (DrawnLogo, error) {
	if err := n.Operations.Reads.CatchUp(ctx); err != nil {
		return DrawnLogo{}, err
	}
	b := logo.Brand{Domain: domain}
	entry, err := n.Models.Brands.Get(ctx, domain)
	if err != nil && !errors.Is(err, brands.ErrNotFound) {
		return DrawnLogo{}, err
	}
	if err == nil {
		looks, err := entry.Looks()
		if err != nil {
			return DrawnLogo{}, err
		}
		if !looks.Restricted {
			b.Name, b.Logos = looks.Name, looks.Logos
		}
	}
	renderer, err := n.drawing.openLogos()
	if err != nil {
		return DrawnLogo{}, err
	}
	image, err := renderer.Draw(ctx, b, o)
	if err != nil {
		return DrawnLogo{}, err
	}
	if image.Fallback != "" && o.Fallback == logo.NotFound {
		return DrawnLogo{}, fmt.Errorf("no logo of %s is known", domain)
	}
	info, err := imaging.Probe(image.Body)
	if err != nil {
		return DrawnLogo{}, err
	}
	out := DrawnLogo{Body: image.Body, Format: string(info.Format),
		Size: fmt.Sprintf("%d × %d px", info.Width, info.Height), From: "fallback: " + string(o.Fallback)}
	if info.Format == imaging.SVG {
		out.Size = "a vector"
	}
	if image.Fallback == "" {
		out.From = describeSource(b.Logos, image.From)
	}
	return out, nil
}

// describeSource describes the logo that a stored file belongs to, such as "symbol, dark ink (svg)".
func describeSource(logos []eventschemas.Logo, source logo.Source) string {
	for _, l := range logos {
		if slices.ContainsFunc(l.Formats, func(f eventschemas.Asset) bool { return f.ID == source.ID }) {
			ink := ""
			if source.Ink != logo.Any {
				ink = ", " + string(source.Ink) + " ink"
			}
			return fmt.Sprintf("%s%s (%s)", l.Type, ink, source.Format)
		}
	}
	return string(source.Format)
}
