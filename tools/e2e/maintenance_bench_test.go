package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// Each phase measures at least benchLookups look-ups, with benchPause between them. The service is nearly idle, so
	// only the maintenance command delays look-ups.
	benchLookups = 2000
	benchPause   = 2 * time.Millisecond
)

// BenchmarkLookupsDuringMaintenance measures charged look-ups in three phases: alone, during `backup`, and during
// `projections verify`. The log has LETTERHEAD_BENCH_EVENTS charges. The commands run repeatedly until the phase has
// enough look-ups. The times of the phases backup and verify should stay below twice those of alone.
func BenchmarkLookupsDuringMaintenance(b *testing.B) {
	n := startWithCharges(b)
	defer n.terminate(b)
	data, t := n.data, &testing.T{}
	phases := []struct {
		name    string
		command func(i int) []string
	}{
		{"alone", nil},
		{"backup", func(i int) []string { return []string{"backup", filepath.Join(b.TempDir(), fmt.Sprint(i))} }},
		{"verify", func(int) []string { return []string{"projections", "verify"} }},
	}
	b.ResetTimer()
	for range b.N {
		for _, p := range phases {
			acc, key := account(t, data, "custom") // a new account is below its limit of requests per minute
			ok(t, data, "credits", "grant", "--account", acc.Account.ID, "--amount", fmt.Sprint(benchLookups), "--kind", "adjustment", "--reason", "test")
			took, peak := n.lookupsDuring(b, key, p.command)
			if peak > 0 {
				b.ReportMetric(float64(peak)/(1<<20), "MiB-"+p.name)
			}
			slices.Sort(took)
			for _, q := range []int{50, 99} {
				b.ReportMetric(float64(took[len(took)*q/100].Microseconds())/1000, fmt.Sprintf("ms-p%d-%s", q, p.name))
			}
		}
	}
}

// startWithCharges starts a server whose log has LETTERHEAD_BENCH_EVENTS charges.
func startWithCharges(b *testing.B) *node {
	b.Helper()
	data := b.TempDir()
	_, first := timeToReady(b, data)
	first.terminate(b)
	writeCharges(b, filepath.Join(data, "events.db"), events(b))
	_, n := timeToReady(b, data)
	return n
}

// lookupsDuring measures look-ups while a command, if it is not nil, runs repeatedly. It returns their durations and the
// largest peak memory of a run of the command in bytes.
func (n *node) lookupsDuring(b *testing.B, key string, command func(i int) []string) (took []time.Duration, peak int64) {
	stop := n.repeat(b, command)
	for len(took) < benchLookups {
		began := time.Now()
		a, err := n.get("/v1/brands/github.com", key)
		if err != nil || a.status != http.StatusOK {
			b.Fatalf("the look-up answered %d (%v), want 200: %s", a.status, err, a.body)
		}
		took = append(took, time.Since(began))
		time.Sleep(benchPause)
	}
	return took, stop()
}

// repeat runs a command, if it is not nil, on the data of a node again and again until stop is called. stop returns the
// largest peak memory of a run in bytes.
func (n *node) repeat(b *testing.B, command func(i int) []string) (stop func() int64) {
	ctx, end := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	peak := int64(0)
	go func() {
		defer close(ended)
		for i := 0; command != nil && ctx.Err() == nil; i++ {
			cmd := exec.CommandContext(ctx, binary, append(command(i), "--data", n.data)...)
			cmd.Env = environ()
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			if out, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil {
				ended <- fmt.Errorf("%s: %w: %s", strings.Join(command(i), " "), err, out)
				return
			}
			if cmd.ProcessState == nil { // ctx ended before the command began
				return
			}
			if usage, known := cmd.ProcessState.SysUsage().(*syscall.Rusage); known {
				peak = max(peak, usage.Maxrss<<10) // KiB on Linux
			}
		}
	}()
	return func() int64 {
		end()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
		return peak
	}
}

// BenchmarkLookupsDuringExport measures how many charged look-ups a second a server answers alone and during `journal
// export`, in turns, with clients that keep it busy. The log has LETTERHEAD_BENCH_EVENTS charges. The loss, in the median of
// the rounds, should stay below 5 %.
func BenchmarkLookupsDuringExport(b *testing.B) {
	const (
		clients, each = 8, 2500 // an account may send only 3,000 requests a minute
		rounds        = 6       // of an iteration, because the speed of a machine changes by more than the loss
	)
	n := startWithCharges(b)
	defer n.terminate(b)
	data, t := n.data, &testing.T{}
	exported := filepath.Join(b.TempDir(), "journal.csv")
	rate := func(command func(int) []string) float64 { // look-ups a second
		var keys []string
		for range clients {
			acc, key := account(t, data, "custom")
			ok(t, data, "credits", "grant", "--account", acc.Account.ID, "--amount", fmt.Sprint(each), "--kind", "adjustment", "--reason", "test")
			keys = append(keys, key)
		}
		stop := n.repeat(b, command)
		began := time.Now()
		lookups(b, n, keys, each)
		took := time.Since(began)
		stop()
		return clients * each / took.Seconds()
	}
	export := func(int) []string { return []string{"journal", "export", "-o", exported} }
	rate(nil) // warms up
	measured := map[string][]float64{}
	for b.Loop() {
		for round := range rounds {
			var alone, during float64
			if round%2 == 0 {
				alone, during = rate(nil), rate(export)
			} else {
				during, alone = rate(export), rate(nil)
			}
			b.Logf("%.0f look-ups a second alone, %.0f during exports", alone, during)
			for unit, value := range map[string]float64{"lookups/s-alone": alone, "lookups/s-export": during, "loss-%": 100 * (1 - during/alone)} {
				measured[unit] = append(measured[unit], value)
			}
		}
	}
	for unit, values := range measured {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], unit)
	}
}
