package readapi

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxConns bounds the connections that are open at a time: as many as look-ups under way (maxLookups). Each is an
// open file; without a bound, clients that connect and say nothing would use up those that the stores need.
const maxConns = 8192

// mostConns is maxConns, or half of the files that the process may have open where that is less: the other half
// is for the stores and for crawls.
func mostConns() int { return int(min(maxConns, openFiles()/2)) }

// crowd is the open connections of a listener. When there are as many as may be, a new one takes the place of
// the one on which no request was under way for the longest time: to refuse the new one would let whoever
// holds connections open shut everybody else out. When a request is under way on each, the new one waits;
// every request ends.
type crowd struct {
	limit int

	mu      sync.Mutex
	changed sync.Cond // somebody left, or has no request any more, or the crowd is over
	conns   list.List // of *answerConn: those without a request, the longest so first, then mark, then the others
	mark    *list.Element
	over    bool
}

// place is a connection's in the crowd, which guards it; nil when it has none.
type place = *list.Element

func newCrowd(limit int) *crowd {
	c := &crowd{limit: limit}
	c.changed.L = &c.mu
	c.mark = c.conns.PushBack(nil)
	return c
}

// join lets a connection in. It returns false when the crowd is over.
func (c *crowd) join(conn *answerConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.conns.Len() > c.limit && !c.over { // the mark is one
		if out := c.longestIdle(); out != nil {
			c.remove(out)
			_ = out.Conn.Close() // its goroutine finds it closed
		} else {
			c.changed.Wait()
		}
	}
	if c.over {
		return false
	}
	conn.place = c.conns.InsertBefore(conn, c.mark)
	return true
}

// longestIdle wants the lock, and does not look through the crowd for it: who asks is every newcomer to a full one.
// It returns nil when a request is under way on each connection.
func (c *crowd) longestIdle() *answerConn {
	conn, _ := c.conns.Front().Value.(*answerConn) // the mark is none
	return conn
}

// remove wants the lock.
func (c *crowd) remove(conn *answerConn) {
	if conn.place != nil {
		c.conns.Remove(conn.place)
		conn.place = nil
		c.changed.Signal()
	}
}

func (c *crowd) leave(conn *answerConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(conn)
}

// end makes join return.
func (c *crowd) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.changed.Broadcast()
}

// noteState is the server's ConnState hook: a connection is active from the end of a request's headers to the
// end of its answer.
func noteState(c net.Conn, state http.ConnState) {
	conn, ok := c.(*answerConn)
	if !ok {
		return
	}
	crowd := conn.crowd
	crowd.mu.Lock()
	defer crowd.mu.Unlock()
	switch {
	case conn.place == nil:
	case state == http.StateActive:
		crowd.conns.MoveToBack(conn.place)
	case state == http.StateIdle:
		crowd.conns.MoveBefore(conn.place, crowd.mark)
		crowd.changed.Signal()
	}
}
