package capture

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultMax is the cap of a stream when none was asked for, in bytes.
const DefaultMax = 64 << 20

// Policy is what happens when a job writes more than the cap.
type Policy string

const (
	// PolicyTruncate keeps the head and the newest tail, and goes on.
	PolicyTruncate Policy = "truncate"
	// PolicyStop tells by Capture.Exceeded, and else does the same.
	PolicyStop Policy = "stop"
)

// Config is what is captured and how.
type Config struct {
	// Stdout and Stderr are the ends to read from: pipes, or what else can be
	// read. Nil is no such stream, of which there will be no file. When both
	// are the same pipe, it is the standard output. Start makes descriptors of
	// its own; the caller closes these, and every descriptor that it has of
	// the ends to write to, without which no stream ever ends.
	Stdout, Stderr *os.File
	// Max is the cap of each stream in bytes. 0 keeps nothing and counts.
	Max int64
	// Policy is PolicyTruncate or PolicyStop; empty is PolicyTruncate.
	Policy Policy
	// Rest, if it is not nil, is called by who reads a stream each time that this
	// has had another RestBytes: so that a process which does nothing else can give
	// back what memory it has come to hold.
	Rest      func()
	RestBytes int64
}

// Stats is what is known of both streams.
type Stats struct {
	Stdout, Stderr StreamStats
}

// StreamStats is what is known of one stream.
type StreamStats struct {
	// Seen is how many bytes came, Dropped how many of them are not on disk
	// (any more).
	Seen, Dropped int64
	// LastAt is when the latest of them came; zero when none did.
	LastAt time.Time
	// Closed is true when every writer has closed the stream. It is true for a
	// stream that is not captured.
	Closed bool
	// Err is the latest reason why bytes could not be kept, or why a source
	// could not be read, and ErrAt when that was. Err stays when the disk works
	// again.
	Err   error
	ErrAt time.Time
}

// Capture keeps the output of a job until it ends.
type Capture struct {
	sources  []*source
	ended    chan struct{}
	exceeded chan struct{}
	once     sync.Once
}

// Start begins to keep what comes from the streams, in files of the directory
// dir, which the caller may close then. One goroutine reads each stream, with a
// buffer only where splice(2) cannot do it.
//
// A disk that refuses is no error, here or later: the job is never held up for
// it. Its bytes count as dropped, Stats says why, and once a second the disk is
// tried again. Start fails when the directory has files of the streams already
// (it matches fs.ErrExist), for a negative cap and for want of descriptors.
//
// Where the process has a limit to the size of files (RLIMIT_FSIZE), SIGXFSZ is
// caught while the capture goes on: it would end the process.
func Start(dir *os.File, cfg Config) (*Capture, error) {
	if cfg.Max < 0 {
		return nil, fmt.Errorf("cannot capture output: a cap of %d bytes is less than nothing", cfg.Max)
	}
	c := &Capture{ended: make(chan struct{}), exceeded: make(chan struct{})}
	if cfg.Stdout != nil && cfg.Stderr != nil && samePipe(cfg.Stdout, cfg.Stderr) {
		cfg.Stderr = nil
	}
	for _, s := range []struct {
		from *os.File
		name Stream
	}{{cfg.Stdout, Stdout}, {cfg.Stderr, Stderr}} {
		if s.from == nil {
			continue
		}
		src, err := newSource(dir, s.from, s.name)
		if err != nil {
			for _, other := range c.sources {
				other.close()
			}
			return nil, fmt.Errorf("cannot capture %s: %w", s.name, err)
		}
		src.rest, src.restBytes, src.restAt = cfg.Rest, cfg.RestBytes, cfg.RestBytes
		if cfg.Policy == PolicyStop {
			src.exceeded = func() { c.once.Do(func() { close(c.exceeded) }) }
		}
		c.sources = append(c.sources, src)
	}
	release := catchTooLarge()
	var running sync.WaitGroup
	now := time.Now()
	for _, src := range c.sources {
		src.open(cfg.Max, now)
		running.Go(src.run)
	}
	go func() {
		running.Wait()
		release()
		close(c.ended)
	}()
	return c, nil
}

// Ended is closed when every stream has ended or was given up, and its files
// are complete.
func (c *Capture) Ended() <-chan struct{} { return c.ended }

// Exceeded is closed when a stream has become larger than the cap, with
// PolicyStop. Who gets that is to end the job; its output is kept on as before.
func (c *Capture) Exceeded() <-chan struct{} { return c.exceeded }

// Drain gives up the streams that have not ended after d: another process may
// hold them for ever. What was written until then is kept. Who still writes
// gets SIGPIPE. A later call sets another time; one that has passed counts.
func (c *Capture) Drain(d time.Duration) {
	at := time.Now().Add(d)
	for _, s := range c.sources {
		s.giveUpAt(at)
	}
}

// Close gives up what has not ended, as Drain does, now, and waits until the
// files are complete. It may be called more than once.
func (c *Capture) Close() {
	c.Drain(0)
	<-c.ended
}

// Stats is what is known now.
func (c *Capture) Stats() Stats {
	st := Stats{StreamStats{Closed: true}, StreamStats{Closed: true}}
	for _, s := range c.sources {
		if s.stream == Stderr {
			st.Stderr = s.stats()
		} else {
			st.Stdout = s.stats()
		}
	}
	return st
}

// samePipe is true for two descriptors of one pipe.
func samePipe(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil || x.Mode()&os.ModeNamedPipe == 0 {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// catchTooLarge catches SIGXFSZ where it can come. What the process executes
// gets the signal as it was, which it would not if it were ignored.
func catchTooLarge() (release func()) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &l); err == nil && l.Cur == unix.RLIM_INFINITY {
		return func() {}
	}
	c := make(chan os.Signal, 1) // nobody reads it
	signal.Notify(c, unix.SIGXFSZ)
	return func() { signal.Stop(c) }
}
