// Package sqlitemutex gives SQLite mutexes that are cheap to lock when they are free. Programs only import it.
//
// The driver opens each connection so that SQLite locks a mutex for each value that is bound or read, although
// database/sql never uses a connection in two goroutines. On Linux those are the mutexes of modernc.org/libc, which
// finds each one in a map: they took a tenth of the processor time of a replay.
package sqlitemutex

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// mutex is a recursive mutex. It also serves as one that SQLite does not need to be recursive.
type mutex struct {
	sync.Mutex
	owner atomic.Int32 // the id of the thread that holds it, or 0
	depth int32        // how often the owner has entered it again
}

// all keeps the mutexes that SQLite refers to, because the garbage collector does not see SQLite's references.
var all = struct {
	sync.Mutex
	static [sqlite3.SQLITE_MUTEX_STATIC_VFS3 + 1]mutex
	used   map[uintptr]*mutex
}{used: make(map[uintptr]*mutex)}

// methods is a variable, because a stack may move while SQLite copies from it.
var methods = sqlite3.Tsqlite3_mutex_methods{
	FxMutexInit:  function(func(*libc.TLS) int32 { return sqlite3.SQLITE_OK }),
	FxMutexEnd:   function(func(*libc.TLS) int32 { return sqlite3.SQLITE_OK }),
	FxMutexAlloc: function(alloc),
	FxMutexFree:  function(release),
	FxMutexEnter: function(enter),
	FxMutexTry:   function(try),
	FxMutexLeave: function(leave),
}

// function returns a Go function in the form of the driver's function pointers.
func function[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

// SQLite accepts other mutexes only before the first connection.
func init() {
	tls := libc.NewTLS()
	defer tls.Close()
	args := tls.Alloc(int(unsafe.Sizeof(uintptr(0))))
	defer tls.Free(int(unsafe.Sizeof(uintptr(0))))
	list := libc.VaList(args, uintptr(unsafe.Pointer(&methods)))
	if rc := sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_MUTEX, list); rc != sqlite3.SQLITE_OK {
		panic(fmt.Sprintf("sqlitemutex: SQLite rejects the mutexes with code %d", rc))
	}
}

// alloc implements xMutexAlloc: kinds above SQLITE_MUTEX_RECURSIVE are static.
func alloc(_ *libc.TLS, kind int32) uintptr {
	if kind > sqlite3.SQLITE_MUTEX_RECURSIVE {
		return uintptr(unsafe.Pointer(&all.static[kind]))
	}
	m := new(mutex)
	p := uintptr(unsafe.Pointer(m))
	all.Lock()
	defer all.Unlock()
	all.used[p] = m
	return p
}

func release(_ *libc.TLS, p uintptr) {
	all.Lock()
	defer all.Unlock()
	delete(all.used, p)
}

func enter(tls *libc.TLS, p uintptr) {
	m := at(p)
	if m.owner.Load() == tls.ID {
		m.depth++
		return
	}
	m.Lock()
	m.owner.Store(tls.ID)
}

func try(tls *libc.TLS, p uintptr) int32 {
	m := at(p)
	switch {
	case m.owner.Load() == tls.ID:
		m.depth++
	case m.TryLock():
		m.owner.Store(tls.ID)
	default:
		return sqlite3.SQLITE_BUSY
	}
	return sqlite3.SQLITE_OK
}

func leave(_ *libc.TLS, p uintptr) {
	m := at(p)
	if m.depth > 0 {
		m.depth--
		return
	}
	m.owner.Store(0)
	m.Unlock()
}

func at(p uintptr) *mutex { return *(**mutex)(unsafe.Pointer(&p)) }
