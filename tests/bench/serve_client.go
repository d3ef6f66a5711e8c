package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// patience bounds what a benchmark waits for.
const patience = time.Minute

// server is a unitward serve with its client.
type server struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu   sync.Mutex
	cond *sync.Cond
	id   int
	// asked is when each request that is under way was sent.
	asked map[int]time.Time
	took  []time.Duration
	// answered is when the last answer came.
	answered time.Time
	err      error
	ended    chan struct{}
	// pids are the main processes of the jobs that were started, where somebody
	// asks for them.
	pids chan int
}

// startServer starts a server that lets so many jobs run.
func startServer(unitward, state string, running int) (*server, error) {
	s := &server{cmd: exec.Command(unitward, "--state-dir", state, "serve", "--max-running", strconv.Itoa(running)), asked: map[int]time.Time{}, ended: make(chan struct{})}
	s.cond = sync.NewCond(&s.mu)
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in = in
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.read(out)
	s.ask("initialize", map[string]any{})
	return s, s.slot(1)
}

// read takes answers. It looks into none but errors, so as not to measure
// itself.
func (s *server) read(out io.Reader) {
	defer close(s.ended)
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			s.fail(fmt.Errorf("the server has ended: %w", err))
			return
		}
		const answer, started = `{"jsonrpc":"2.0","id":`, `{"jsonrpc":"2.0","method":"job/started"`
		if s.pids != nil && bytes.HasPrefix(line, []byte(started)) {
			s.tell(line)
		}
		if !bytes.HasPrefix(line, []byte(answer)) {
			continue
		}
		now := time.Now()
		rest := line[len(answer):]
		n, _ := strconv.Atoi(string(rest[:bytes.IndexByte(rest, ',')]))
		if bytes.HasPrefix(rest[bytes.IndexByte(rest, ','):], []byte(`,"error"`)) {
			s.fail(fmt.Errorf("an error: %s", line))
		}
		s.mu.Lock()
		s.took = append(s.took, now.Sub(s.asked[n]))
		s.answered = now
		delete(s.asked, n)
		s.cond.Broadcast()
		s.mu.Unlock()
	}
}

// tell passes on the process of a job.
func (s *server) tell(line []byte) {
	var told struct {
		Params struct {
			PID int `json:"pid"`
		} `json:"params"`
	}
	if err := json.Unmarshal(line, &told); err != nil {
		s.fail(err)
		return
	}
	s.pids <- told.Params.PID
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.cond.Broadcast()
}

func (s *server) ask(method string, params any) {
	s.mu.Lock()
	s.id++
	id := s.id
	s.asked[id] = time.Now()
	s.mu.Unlock()
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err == nil {
		_, err = s.in.Write(append(b, '\n'))
	}
	if err != nil {
		s.fail(err)
	}
}

// slot waits until fewer than n requests are under way.
func (s *server) slot(n int) error {
	late := time.AfterFunc(patience, func() { s.fail(fmt.Errorf("no answer in %v", patience)) })
	defer late.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.asked) >= n && s.err == nil {
		s.cond.Wait()
	}
	return s.err
}

func job(isolation string, argv ...string) map[string]any {
	return map[string]any{"command": argv, "isolation": []string{isolation}, "grace_ms": 1000}
}

// run runs n jobs, so many at a time, and says how long each took until it had
// settled.
func (s *server) run(isolation string, n, width int) ([]time.Duration, error) {
	s.mu.Lock()
	s.took = nil
	s.mu.Unlock()
	for range n {
		if err := s.slot(width); err != nil {
			return nil, err
		}
		s.ask("job.run", job(isolation, "true"))
	}
	err := s.slot(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took, err
}

// rate keeps so many jobs of `true` in flight for a time, and says how many
// settled a second.
func (s *server) rate(isolation string, width int, d time.Duration) (float64, error) {
	began := time.Now()
	n := 0
	for ; time.Since(began) < d; n++ {
		if err := s.slot(width); err != nil {
			return 0, err
		}
		s.ask("job.run", job(isolation, "true"))
	}
	err := s.slot(1)
	return float64(n) / time.Since(began).Seconds(), err
}

// fill starts jobs that live until there are so many, had being there by now.
func (s *server) fill(isolation string, had, want int) error {
	for range want - had {
		if err := s.slot(inFlight); err != nil {
			return err
		}
		s.ask("job.start", job(isolation, "sleep", "100000"))
	}
	return s.slot(1)
}

// end closes the server's input and waits until it has ended its jobs.
func (s *server) end() error {
	s.in.Close()
	select {
	case <-s.ended:
	case <-time.After(3 * patience): // for thousands of jobs
		_ = s.cmd.Process.Kill()
	}
	return s.cmd.Wait()
}
