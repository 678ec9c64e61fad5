package variants

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxFiles limits the index of the files, which takes 195 bytes of memory for each.
	maxFiles = 1 << 20
	// maxFound limits the result of a scan. This package leaves fewer files behind.
	maxFound = maxFiles + 1<<16
	// listed is how many directory entries are read at a time.
	listed = 1024
	// maxReads limits the threads that a slow disk can block; beyond it an image is made instead of
	// read.
	maxReads = 32
	// maxQueued and maxQueuedBytes limit the write queue: about one second of writes on a healthy
	// disk.
	maxQueued      = 1024
	maxQueuedBytes = 16 << 20
	// touchEvery is the precision of a file's time of last use.
	touchEvery = time.Hour
	// stranded is the age at which an unfinished file has no writer any more. Writing one takes
	// milliseconds, but another process may use the folder, too.
	stranded = time.Minute
	// maxSpared limits the files that are skipped to find one to remove, while the index is locked.
	maxSpared = 128
	// closeScanTimeout limits how long close waits for a scan that has just begun, so that queued files
	// can be written.
	closeScanTimeout = 2 * time.Second
	// complainEvery limits how often a broken disk is logged.
	complainEvery = time.Minute
)

// disk stores images in files. Disk errors are counted and logged, and the image is made again.
//
// One goroutine, work, writes and removes files. It starts when another, scan, has scanned the folder:
// before that the used space is unknown, so writes wait in the queue. Reads do not wait: until then
// they try the file's name.
//
// The policy is least recently used, unlike that of the memory, which keeps frequently used images:
// after a change of the renderer all old files are useless and must be removed before new ones.
type disk struct {
	folder  string
	limit   int64 // bytes, in blocks
	hot     func(Key) bool
	logger  *slog.Logger
	metrics *metrics

	mu    sync.Mutex
	files *simplelru.LRU[Key, int64] // bytes, in blocks
	held  int64                      // sum of the sizes
	lost  map[Key]struct{}           // forgotten before the scan was complete; nil afterwards

	scanned     atomic.Bool // files lists the whole folder
	reads       chan struct{}
	queue       chan queued
	queuedBytes atomic.Int64
	stopScan    context.CancelFunc
	workers     sync.WaitGroup
	abandoned   atomic.Bool // Close no longer waits for the workers

	complaints struct {
		sync.Mutex
		next       time.Time
		suppressed int
	}
}

type queued struct {
	key   Key
	image Image
}

// found is a file found by a scan.
type found struct {
	key  Key
	size int64     // bytes, in blocks
	used time.Time // an approximate time of last use
}

// newDisk returns the disk level for a folder. hot reports whether memory holds a key, which is then
// in use although it is not read from disk.
func newDisk(cfg Config, m *metrics, hot func(Key) bool) (*disk, error) {
	files, err := simplelru.NewLRU[Key, int64](maxFiles+1, nil) // evict keeps one fewer
	if err != nil {
		return nil, fmt.Errorf("make index of files: %w", err)
	}
	return &disk{
		folder: cfg.Folder, limit: cfg.DiskBytes, hot: hot, logger: cfg.Logger, metrics: m, files: files, lost: map[Key]struct{}{},
		reads: make(chan struct{}, maxReads), queue: make(chan queued, maxQueued),
	}, nil
}

func (d *disk) start() {
	var ctx context.Context
	ctx, d.stopScan = context.WithCancel(context.Background()) // ends with close
	all := make(chan []found, 1)
	d.workers.Go(func() { d.scan(ctx, all) })
	d.workers.Go(func() { d.work(all) })
}

// close writes the queued files. put must not be called afterwards.
func (d *disk) close() {
	close(d.queue)
	late := time.AfterFunc(closeScanTimeout, d.stopScan)
	d.workers.Wait()
	late.Stop()
	d.stopScan()
}

// abandon makes the workers drop queued files.
func (d *disk) abandon() {
	d.abandoned.Store(true)
	d.stopScan()
}

// get returns an image if the disk has it and delivers it soon.
func (d *disk) get(key Key) (Image, bool) {
	d.mu.Lock()
	_, known := d.files.Get(key)
	d.mu.Unlock()
	if !known && d.scanned.Load() {
		return Image{}, false
	}
	select {
	case d.reads <- struct{}{}:
		defer func() { <-d.reads }()
	default:
		return Image{}, false
	}
	p, used, err := readFile(d.folder, key)
	if !known && errors.Is(err, fs.ErrNotExist) {
		return Image{}, false
	}
	if err != nil {
		d.forget(key) // the image will be made again and written in its place
		if errors.Is(err, errDamaged) {
			d.failed("check", err)
			d.remove(key)
		} else {
			d.failed("read", err)
		}
		return Image{}, false
	}
	if now := time.Now(); now.Sub(used) > touchEvery {
		if err := os.Chtimes(pathOf(d.folder, key), now, now); err != nil {
			d.failed("touch", err)
		}
	}
	return p, true
}

// put queues an image to be written.
func (d *disk) put(key Key, p Image) {
	size := int64(len(p.Body))
	if onDisk(len(p.Body)) > d.limit {
		return
	}
	if d.queuedBytes.Add(size) <= maxQueuedBytes {
		select {
		case d.queue <- queued{key, p}:
			return
		default:
		}
	}
	d.queuedBytes.Add(-size)
	d.metrics.dropped.Inc()
}

func (d *disk) work(all <-chan []found) {
	files, ok := <-all
	if ok {
		d.adopt(files)
	}
	for q := range d.queue {
		d.queuedBytes.Add(-int64(len(q.image.Body)))
		if !ok || d.abandoned.Load() { // closed during the scan, or during a write that hung
			d.metrics.dropped.Inc()
			continue
		}
		d.write(q)
	}
}

// adopt adds existing files to the index.
func (d *disk) adopt(all []found) {
	slices.SortFunc(all, func(a, b found) int { return a.used.Compare(b.used) })
	for _, f := range all {
		d.mu.Lock() // per file, so that readers are not delayed
		if _, lost := d.lost[f.key]; !lost {
			d.add(f.key, f.size)
		}
		d.mu.Unlock()
	}
	d.mu.Lock()
	d.lost = nil
	d.scanned.Store(true)
	d.mu.Unlock()
	d.evict(0)
}

func (d *disk) write(q queued) {
	d.mu.Lock()
	_, there := d.files.Get(q.key)
	d.mu.Unlock()
	if there { // made twice before it was written once
		return
	}
	size := onDisk(len(q.image.Body))
	d.evict(size)
	if err := writeFile(d.folder, q.key, q.image); err != nil {
		d.failed("write", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(q.key, size)
}

// evict removes files to make room for a new one.
func (d *disk) evict(size int64) {
	for {
		key, ok := d.surplus(size)
		if !ok {
			return
		}
		d.remove(key)
	}
}

// surplus removes from the index a file that must be removed before one of this size fits.
func (d *disk) surplus(size int64) (Key, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held+size <= d.limit && d.files.Len() < maxFiles {
		return Key{}, false
	}
	// Images in memory are the most used, and a restart must not lose exactly those.
	key, _, ok := d.files.GetOldest()
	for spare := min(maxSpared, d.files.Len()); spare > 0 && d.hot(key); spare-- {
		d.files.Get(key)
		key, _, ok = d.files.GetOldest()
	}
	d.drop(key)
	return key, ok
}

// add adds a file that is not in the index. work holds the lock; no other goroutine adds.
func (d *disk) add(key Key, size int64) {
	d.files.Add(key, size)
	d.held += size
}

// drop removes a file from the index. The lock is held.
func (d *disk) drop(key Key) {
	if size, ok := d.files.Peek(key); ok {
		d.files.Remove(key)
		d.held -= size
	}
}

// forget removes a missing or damaged file from the index.
func (d *disk) forget(key Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(key)
	if d.lost != nil { // the scan may have found it already
		d.lost[key] = struct{}{}
	}
}

func (d *disk) remove(key Key) {
	if err := os.Remove(pathOf(d.folder, key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.failed("remove", err)
	}
}

func (d *disk) holds() (files int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files.Len(), d.held
}

// scan lists the folder and removes files of interrupted writes. It sends nothing if it was stopped.
// Unknown files are left alone.
func (d *disk) scan(ctx context.Context, to chan<- []found) {
	defer close(to)
	var all []found
	var shards []string
	d.list(ctx, d.folder, func(e fs.DirEntry) {
		name := e.Name()
		switch {
		case e.IsDir() && len(name) == hex.EncodedLen(1):
			shards = append(shards, name)
		case strings.HasPrefix(name, unfinished):
			d.removeStranded(e)
		}
	})
	for _, shard := range shards {
		d.list(ctx, filepath.Join(d.folder, shard), func(e fs.DirEntry) {
			key, ours := keyOf(shard, e.Name())
			if !ours || !e.Type().IsRegular() || len(all) == maxFound {
				return
			}
			if info, err := e.Info(); err == nil { // otherwise it was removed
				all = append(all, found{key, inBlocks(info.Size()), info.ModTime()})
			}
		})
	}
	if ctx.Err() == nil {
		to <- all
	}
}

// list calls each for every entry of a folder, until ctx ends.
func (d *disk) list(ctx context.Context, folder string, each func(fs.DirEntry)) {
	f, err := os.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		d.failed("list", err)
		return
	}
	defer f.Close() // opened for reading only
	for ctx.Err() == nil {
		entries, err := f.ReadDir(listed)
		for _, e := range entries {
			each(e)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			d.failed("list", err)
			return
		}
	}
}

func (d *disk) removeStranded(e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < stranded {
		return // it was removed, or may be being written
	}
	if err := os.Remove(filepath.Join(d.folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.failed("remove", err)
	}
}

// failed counts a disk error, and logs it if none was logged recently.
func (d *disk) failed(doing string, err error) {
	d.metrics.diskErrors.WithLabelValues(doing).Inc()
	c := &d.complaints
	c.Lock()
	defer c.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		c.suppressed++
		return
	}
	d.logger.Warn("caching drawn logos on disk failed", "doing", doing, "error", err, "suppressed", c.suppressed)
	c.next, c.suppressed = now.Add(complainEvery), 0
}
