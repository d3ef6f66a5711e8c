package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/store"
)

// pipes are where a command writes its output to.
type pipes struct{ out, err [2]*os.File }

func newPipes() (*pipes, error) {
	p := &pipes{}
	for _, ends := range []*[2]*os.File{&p.out, &p.err} {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, fmt.Errorf("cannot make a pipe for the output: %w", err)
		}
		ends[0], ends[1] = r, w
	}
	return p, nil
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.out[0], p.out[1], p.err[0], p.err[1]} {
		if f != nil {
			f.Close()
		}
	}
}

// restBytes is how much of a stream a keeper takes before it gives back the memory
// that this took: that of some seconds, at the fastest.
const restBytes = 512 << 20

// capture begins to keep what comes through the pipes in a job's directory. rest, if
// it is not nil, is called now and then while much comes.
func (p *pipes) capture(e *store.Entry, most int64, policy capture.Policy, rest func()) (*capture.Capture, error) {
	dir, err := e.OpenDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	c, err := capture.Start(dir, capture.Config{Stdout: p.out[0], Stderr: p.err[0], Max: most, Policy: policy, Rest: rest, RestBytes: restBytes})
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("cannot capture output in %s: there is some of another job", filepath.Base(e.Dir()))
	}
	return c, err
}
