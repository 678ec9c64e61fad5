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
	// maxFiles bounds the index of the files, which takes 195 bytes of memory for each.
	maxFiles = 1 << 20
	// maxFound bounds what a look through the folder notes. This package leaves fewer files behind.
	maxFound = maxFiles + 1<<16
	// listed is how many names of a folder are read at once.
	listed = 1024
	// maxReads bounds the threads that a slow disk can hold; past it a picture is made instead of read.
	maxReads = 32
	// maxQueued and maxQueuedBytes bound what waits to be written: a second's work on a disk that is well.
	maxQueued      = 1024
	maxQueuedBytes = 16 << 20
	// touchEvery is how old the mark of a file's last use may be.
	touchEvery = time.Hour
	// stranded is when an unfinished file has no writer any more. Writing one takes milliseconds, but another
	// process may have the folder too.
	stranded = time.Minute
	// maxSpared bounds the files that are passed over to find one to remove, with the index locked.
	maxSpared = 128
	// closePatience bounds how long close waits for a look through the folder that has only begun, so that
	// what is queued can be written.
	closePatience = 2 * time.Second
	// complainEvery bounds what a broken disk writes to the log.
	complainEvery = time.Minute
)

// disk holds pictures in files. What goes wrong with it is counted and logged, and the picture is made.
//
// One goroutine, work, writes and removes. It begins when another, scan, has looked through the folder: before
// that nobody knows how much is there, so what is to be written waits in the queue. Reads do not wait: until
// then they try the file's name.
//
// The policy is least recently used, not the memory's, which keeps what is asked for often: after a change of
// what is drawn all files of before are useless, and must go before new ones.
type disk struct {
	folder  string
	limit   int64 // bytes, in blocks
	hot     func(Key) bool
	logger  *slog.Logger
	metrics *metrics

	mu    sync.Mutex
	files *simplelru.LRU[Key, int64] // bytes, in blocks
	held  int64                      // their sum
	lost  map[Key]struct{}           // forgotten before files had all that is in the folder; nil after that

	scanned     atomic.Bool // files has all that is in the folder
	reads       chan struct{}
	queue       chan queued
	queuedBytes atomic.Int64
	stopScan    context.CancelFunc
	workers     sync.WaitGroup
	givenUp     atomic.Bool // nobody waits for the workers any more

	complaints struct {
		sync.Mutex
		next   time.Time
		unsaid int
	}
}

type queued struct {
	key     Key
	picture Picture
}

// found is a file that a look through the folder came upon.
type found struct {
	key  Key
	size int64     // bytes, in blocks
	used time.Time // some time since it was last used
}

// newDisk returns the level of a folder. hot says what memory holds, which is in use though nobody asks the
// disk for it.
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

// close writes what is queued. Nobody may put any more.
func (d *disk) close() {
	close(d.queue)
	late := time.AfterFunc(closePatience, d.stopScan)
	d.workers.Wait()
	late.Stop()
	d.stopScan()
}

// giveUp has the workers drop what they have not begun.
func (d *disk) giveUp() {
	d.givenUp.Store(true)
	d.stopScan()
}

// get returns a picture when the disk has it and gives it soon.
func (d *disk) get(key Key) (Picture, bool) {
	d.mu.Lock()
	_, known := d.files.Get(key)
	d.mu.Unlock()
	if !known && d.scanned.Load() {
		return Picture{}, false
	}
	select {
	case d.reads <- struct{}{}:
		defer func() { <-d.reads }()
	default:
		return Picture{}, false
	}
	p, used, err := readFile(d.folder, key)
	if !known && errors.Is(err, fs.ErrNotExist) {
		return Picture{}, false
	}
	if err != nil {
		d.forget(key) // what is made now is written in its place
		if errors.Is(err, errDamaged) {
			d.failed("check", err)
			d.remove(key)
		} else {
			d.failed("read", err)
		}
		return Picture{}, false
	}
	if now := time.Now(); now.Sub(used) > touchEvery {
		if err := os.Chtimes(pathOf(d.folder, key), now, now); err != nil {
			d.failed("touch", err)
		}
	}
	return p, true
}

// put has a picture written when there is time.
func (d *disk) put(key Key, p Picture) {
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
		d.queuedBytes.Add(-int64(len(q.picture.Body)))
		if !ok || d.givenUp.Load() { // closed in the middle of the look through the folder, or of a write that hung
			d.metrics.dropped.Inc()
			continue
		}
		d.write(q)
	}
}

// adopt takes over the files of before.
func (d *disk) adopt(all []found) {
	slices.SortFunc(all, func(a, b found) int { return a.used.Compare(b.used) })
	for _, f := range all {
		d.mu.Lock() // for each, so that readers are not held up
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
	size := onDisk(len(q.picture.Body))
	d.evict(size)
	if err := writeFile(d.folder, q.key, q.picture); err != nil {
		d.failed("write", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(q.key, size)
}

// evict makes room for a file.
func (d *disk) evict(size int64) {
	for {
		key, ok := d.surplus(size)
		if !ok {
			return
		}
		d.remove(key)
	}
}

// surplus takes a file out of the index that must go before another of a size can come.
func (d *disk) surplus(size int64) (Key, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held+size <= d.limit && d.files.Len() < maxFiles {
		return Key{}, false
	}
	// What memory holds is asked for most, and a restart must not lose just that.
	key, _, ok := d.files.GetOldest()
	for spare := min(maxSpared, d.files.Len()); spare > 0 && d.hot(key); spare-- {
		d.files.Get(key)
		key, _, ok = d.files.GetOldest()
	}
	d.drop(key)
	return key, ok
}

// add notes a file that is not in the index. The lock is held, by work, as nobody else adds.
func (d *disk) add(key Key, size int64) {
	d.files.Add(key, size)
	d.held += size
}

// drop takes a file out of the index. The lock is held.
func (d *disk) drop(key Key) {
	if size, ok := d.files.Peek(key); ok {
		d.files.Remove(key)
		d.held -= size
	}
}

// forget takes a file out of the index that is not there or not good.
func (d *disk) forget(key Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(key)
	if d.lost != nil { // the look through the folder may have come upon it already
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

// scan looks through the folder, and removes what a kill in the middle of a write left there. It sends
// nothing when it was stopped. Files that are none of ours are left alone.
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
			if info, err := e.Info(); err == nil { // else it went away
				all = append(all, found{key, inBlocks(info.Size()), info.ModTime()})
			}
		})
	}
	if ctx.Err() == nil {
		to <- all
	}
}

// list calls a function for what is in a folder, until ctx ends.
func (d *disk) list(ctx context.Context, folder string, each func(fs.DirEntry)) {
	f, err := os.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		d.failed("list", err)
		return
	}
	defer f.Close() // was only read
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
		return // it went away, or may be being written
	}
	if err := os.Remove(filepath.Join(d.folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.failed("remove", err)
	}
}

// failed counts what went wrong with the disk, and logs it when nothing was logged for a while.
func (d *disk) failed(doing string, err error) {
	d.metrics.diskErrors.WithLabelValues(doing).Inc()
	c := &d.complaints
	c.Lock()
	defer c.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		c.unsaid++
		return
	}
	d.logger.Warn("drawn logos are not kept on disk as they should be", "doing", doing, "error", err, "unsaid", c.unsaid)
	c.next, c.unsaid = now.Add(complainEvery), 0
}
