package serve

import (
	"os"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// ends are both sides of a job's streams.
type ends struct {
	stdio launch.Stdio
	out   *piped
	in    *os.File
	jobs  []*os.File
}

// open makes the streams that were asked for. What it returns with an error is
// to be closed, too.
func (s *Server) open(p *StartParams) (*ends, error) {
	e := &ends{}
	if p.Stdin == stdinPipe {
		own, jobs, err := newPipe(1)
		if err != nil {
			return e, err
		}
		e.in, e.stdio.In = os.NewFile(uintptr(own), "stdin"), jobs
		e.jobs = append(e.jobs, jobs)
	}
	var err error
	switch p.Output.Mode {
	case modeNotify:
		err = e.pipes(p, s.rings, s.gather)
	case modeFiles:
		err = e.files(p, 0o666&^s.cfg.Caller.Umask)
	}
	if err != nil {
		e.closeOwn()
	}
	return e, err
}

func (e *ends) pipes(p *StartParams, rings *pool, gather *gather) error {
	if err := gather.open(); err != nil {
		return err
	}
	e.out = &piped{encoding: p.Output.Encoding, gather: gather, max: -1}
	if p.Output.MaxBytes != nil {
		e.out.max = *p.Output.MaxBytes
	}
	streams := []struct {
		name string
		end  **os.File
	}{{string(capture.Stdout), &e.stdio.Out}, {string(capture.Stderr), &e.stdio.Err}}
	if p.Output.Merged {
		streams = streams[:1]
	}
	for _, st := range streams {
		own, jobs, err := newPipe(0)
		if err != nil {
			return err
		}
		*st.end = jobs
		e.jobs = append(e.jobs, jobs)
		if err := e.out.add(st.name, own, rings); err != nil {
			return err
		}
	}
	if p.Output.Merged {
		e.stdio.Err = e.stdio.Out
	}
	return nil
}

// files opens the files that the job gets. One that is named twice is opened
// once: both streams then write behind one another.
func (e *ends) files(p *StartParams, mode uint32) error {
	paths := [2]string{os.DevNull, os.DevNull}
	for i, t := range []*rpc.Text{p.Output.Stdout, p.Output.Stderr} {
		if t != nil {
			paths[i] = string(*t)
		}
	}
	for i, end := range []**os.File{&e.stdio.Out, &e.stdio.Err} {
		if i == 1 && paths[0] == paths[1] {
			*end = e.stdio.Out
			break
		}
		f, err := openOutput(paths[i], p.Output.Append, mode)
		if err != nil {
			return &unit.StartError{Unit: string(p.Command[0]), Status: statusNoRun, Detail: err.Error(), Hints: hints(err)}
		}
		*end = f
		e.jobs = append(e.jobs, f)
	}
	return nil
}

// closeJobs closes what is the job's, which has it by then, or never will.
func (e *ends) closeJobs() {
	for _, f := range e.jobs {
		f.Close()
	}
}

// closeOwn closes what is ours, where there is no job.
func (e *ends) closeOwn() {
	if e.in != nil {
		e.in.Close()
	}
	if e.out != nil {
		for _, s := range e.out.streams {
			s.close(e.out.gather)
		}
	}
}
