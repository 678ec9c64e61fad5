//go:build services && linux

package cluster

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// Shares of a core. The four nodes and the services stay below two cores together.
	nodeShare, workShare, storeShare = 0.06, 0.4, 0.3
	// scarceShare is the event store's share when it is to be the limit.
	scarceShare = 0.03
	// sharePeriod is the time after which a process gets its share again.
	sharePeriod = 50 * time.Millisecond
	// scaleLasts is the duration of a load, and scaleClients the number of clients of each node.
	scaleLasts, scaleClients = 15 * time.Second, 32
	// linear is the least share of a linear scale-out.
	linear = 0.8
)

// cpuGroup is the folder of a cgroup with a share of the CPU.
type cpuGroup struct {
	folder string
	unlike func(cores float64) error // gives it another share
}

// newGroup skips the benchmark if the machine permits no cgroup. The group is removed after the benchmark.
func newGroup(b *testing.B, name string, cores float64) cpuGroup {
	b.Helper()
	const root = "/sys/fs/cgroup"
	g := cpuGroup{folder: filepath.Join(root, name)}
	period := sharePeriod.Microseconds()
	write := func(file, text string) error { return os.WriteFile(filepath.Join(g.folder, file), []byte(text), 0o600) }
	g.unlike = func(cores float64) error {
		return write("cpu.max", fmt.Sprintf("%.0f %d", cores*float64(period), period))
	}
	text, err := os.ReadFile(root + "/cgroup.controllers")
	if err != nil || !strings.Contains(string(text), "cpu") { // version 1
		g.folder = filepath.Join(root, "cpu", name)
		g.unlike = func(cores float64) error {
			if err := write("cpu.cfs_period_us", strconv.FormatInt(period, 10)); err != nil {
				return err
			}
			return write("cpu.cfs_quota_us", fmt.Sprintf("%.0f", cores*float64(period)))
		}
	}
	if err = os.Mkdir(g.folder, 0o700); err == nil {
		b.Cleanup(func() {
			if err := os.Remove(g.folder); err != nil {
				b.Error(err)
			}
		})
		err = g.unlike(cores)
	}
	if err != nil {
		b.Skipf("this machine permits no cgroup that limits the CPU: %v", err)
	}
	return g
}

func (g cpuGroup) hold(b *testing.B, p *process) {
	b.Helper()
	cmd, _ := p.life()
	pid := []byte(strconv.Itoa(cmd.Process.Pid))
	if err := os.WriteFile(filepath.Join(g.folder, "cgroup.procs"), pid, 0o600); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkScaleOut measures charged look-ups of 300 accounts over 1, 2 and 4 API nodes. Each account belongs to one
// node, as behind a proxy that hashes the key, and each node, the process with all other roles and the event store have
// a share of a core in a cgroup, so that one machine shows what several would do. PostgreSQL, Kafka and Elasticsearch
// are not limited. Until the event store is the limit, the rate must be at least 0.8 of the number of nodes times the
// rate of one. At last the event store gets a small share, and the benchmark prints how many look-ups one of its cores
// serves.
func BenchmarkScaleOut(b *testing.B) {
	at := servicesOf(b)
	prefix := "letterhead-" + random()
	store, work := newGroup(b, prefix+"-store", storeShare), newGroup(b, prefix+"-work", workShare)
	var groups []cpuGroup
	for i := range 4 {
		groups = append(groups, newGroup(b, fmt.Sprint(prefix, "-api-", i+1), nodeShare))
	}
	in := install(b, at, "scale", binary)
	store.hold(b, in.store)
	work.hold(b, in.work.process)
	nodes := []*node{in.api}
	groups[0].hold(b, in.api.process)
	b.ResetTimer()
	one := 0.0
	for _, count := range []int{1, 2, 4} {
		for len(nodes) < count {
			n := in.launch(b, binary, fmt.Sprint("api-", len(nodes)+1), "api")
			groups[len(nodes)].hold(b, n.process)
			nodes = append(nodes, n)
		}
		rate, ofStore := in.rate(b, nodes)
		if count == 1 {
			one = rate
		}
		fmt.Printf("%d API nodes of %.2f cores: %.0f look-ups/s, %.2f of linear; the event store used %.0f %% of its share\n",
			count, nodeShare, rate, rate/one/float64(count), 100*ofStore/storeShare)
		b.ReportMetric(rate, fmt.Sprintf("lookups/s-%d-nodes", count))
		if rate < linear*one*float64(count) && ofStore < linear*storeShare {
			b.Errorf("%d nodes serve %.0f look-ups/s, one %.0f; the event store is not the limit", count, rate, one)
		}
	}
	if err := store.unlike(scarceShare); err != nil {
		b.Fatal(err)
	}
	rate, ofStore := in.rate(b, nodes)
	fmt.Printf("4 API nodes, event store of %.2f cores: %.0f look-ups/s, %.0f for each core of the event store\n",
		scarceShare, rate, rate/ofStore)
	b.ReportMetric(rate/ofStore, "lookups/s-per-store-core")
	b.StopTimer()
	if err := store.unlike(storeShare); err != nil {
		b.Fatal(err)
	}
	in.verifiedOn(b, in.work)
}

// rate returns the look-ups per second of nodes that are fully loaded, and the cores that the event store used.
func (in *installation) rate(b *testing.B, nodes []*node) (rate, storeCores float64) {
	b.Helper()
	load := func(from time.Time, lasts time.Duration) int64 {
		var done atomic.Int64
		atOnce(scaleClients*len(nodes), func(client int) {
			host := strings.TrimPrefix(nodes[client%len(nodes)].url, "http://")
			conn, err := net.Dial("tcp", host)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			caller := &lookupClient{conn: conn, reader: bufio.NewReaderSize(conn, 16<<10), host: host}
			for i := client; time.Since(from) < lasts; i += scaleClients * len(nodes) {
				who := in.accounts[i%lookupAccounts/len(nodes)*len(nodes)+client%len(nodes)]
				if err := caller.lookup(in.brands[i%len(in.brands)], who.secret); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
		return done.Load()
	}
	load(time.Now(), scaleLasts) // accounts and caches are loaded
	before, began := cpuOf(b, in.store), time.Now()
	done := load(began, scaleLasts)
	took := time.Since(began).Seconds()
	if b.Failed() {
		b.FailNow()
	}
	return float64(done) / took, (cpuOf(b, in.store) - before).Seconds() / took
}
