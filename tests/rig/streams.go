package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// streams are the standard streams of a command: files pass through, other
// writers are fed by a pipe each.
type streams struct {
	in, out, err *os.File
	own          []*os.File // opened here
	far          []*os.File // the ends that only the command may hold
	copied       []chan error
}

func (c Command) streams() (*streams, error) {
	s := &streams{in: c.Stdin}
	if s.in == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		s.in, s.own = null, append(s.own, null)
	}
	var err error
	if s.out, err = s.writer(c.Stdout); err != nil {
		return nil, err
	}
	if c.Stderr != nil && c.Stderr == c.Stdout {
		s.err = s.out // one pipe keeps the order
		return s, nil
	}
	if s.err, err = s.writer(c.Stderr); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *streams) writer(w io.Writer) (*os.File, error) {
	if f, ok := w.(*os.File); ok {
		return f, nil
	}
	if w == nil || w == io.Discard {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		s.own = append(s.own, null)
		return null, nil
	}
	r, far, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		done <- err
	}()
	s.own = append(s.own, r)
	s.far = append(s.far, far)
	s.copied = append(s.copied, done)
	return far, nil
}

func (s *streams) closeFar() {
	for _, f := range s.far {
		f.Close()
	}
	s.far = nil
}

// drainTakes bounds how long the pipes may stay open after the command ended:
// something that it left behind may hold them.
const drainTakes = 2 * time.Second

func (s *streams) drain() error {
	timer := time.After(drainTakes)
	for _, c := range s.copied {
		select {
		case err := <-c:
			if err != nil {
				return fmt.Errorf("cannot read the command's output: %w", err)
			}
		case <-timer:
			return nil
		}
	}
	return nil
}

func (s *streams) close() {
	s.closeFar()
	for _, f := range s.own {
		f.Close()
	}
}
