package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

// The targets, in milliseconds from the end of the last process.
const (
	mostVerdictService = 2
	mostVerdictCgroup  = 0.5
)

// calm is how long a job is left alone, so that all who wait for it sleep.
const calm = 20 * time.Millisecond

// verdict measures the time from the end of a job's only process until its
// caller knows. The process is killed by the benchmark, and the clock starts
// before the kill: what the kernel takes to end a process is in every figure,
// and alone in that of the last row.
func (b *bench) verdict() (err error) {
	const bareEnd, cloneEnd, plainEnd = "bare D-Bus program: UnitRemoved", "clone into a cgroup: wait + rmdir", "fork + exec: wait"
	s, err := startServer(b.unitward, filepath.Join(b.dir, "verdict-state"), 10)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	s.pids = make(chan int, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	own := func(name string, most float64, to string, once func() (float64, error)) *entrant {
		e := &entrant{series: series{name: name, against: []comparison{{To: to}}}, ours: true, once: once}
		if most > 0 {
			e.against = append(e.against, comparison{AtMost: most})
		}
		return e
	}
	report := func(isolation string) func() (float64, error) {
		return func() (float64, error) { return reportAfterKill(b.unitward, "run", "--isolation", isolation) }
	}
	entrants := []*entrant{
		own("unitward run (service): report", mostVerdictService, bareEnd, report("service")),
		own("unitward run (cgroup): report", mostVerdictCgroup, cloneEnd, report("cgroup")),
		own("unitward serve (service): answer", mostVerdictService, bareEnd, func() (float64, error) { return s.answerAfterKill("service") }),
		own("unitward serve (cgroup): answer", mostVerdictCgroup, cloneEnd, func() (float64, error) { return s.answerAfterKill("cgroup") }),
		own("unitward run (service): exit", 0, peerService+": exit", func() (float64, error) { return exitAfterKill(b.unitward, "run", "--isolation", "service", "--") }),
		own("unitward run (cgroup): exit", 0, plainEnd, func() (float64, error) { return exitAfterKill(b.unitward, "run", "--isolation", "cgroup", "--") }),
		{series: series{name: peerService + ": exit", lacking: find("systemd-run")}, once: func() (float64, error) {
			return exitAfterKill("systemd-run", b.manager, "--wait", "--pipe", "-q")
		}},
		{series: series{name: bareEnd}, once: func() (float64, error) { return bareAfterKill(ctx, b.manager) }},
		{series: series{name: cloneEnd}, once: cloneAfterKill},
		{series: series{name: plainEnd}, once: func() (float64, error) { return exitAfterKill() }},
	}
	if err := contest(warmUp, b.n, entrants); err != nil {
		return err
	}
	b.add("kill to verdict", "ms", entrants)
	return nil
}

// sayPID is a job that says who it is, as the last words of a command. The
// manager halves what systemd-run does not double (systemd.service(5)).
func sayPID(argv ...string) []string {
	script := "echo $$; exec " + strings.Join(nap(), " ")
	if len(argv) > 0 && argv[0] == "systemd-run" {
		script = strings.ReplaceAll(script, "$", "$$")
	}
	return append(argv, "sh", "-c", script)
}

// kill ends a process, which is a job's only one, and says when.
func kill(pid int) (time.Time, error) {
	time.Sleep(calm)
	at := time.Now()
	return at, syscall.Kill(pid, syscall.SIGKILL)
}

// lag is how long a command's error output may be held by others.
const lag = 5 * time.Second

// launch starts a command that runs the job, and says the job's pid.
func launch(cmd *exec.Cmd) (pid int, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	var said bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &said, lag // the job, which has it too, may live on
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if _, err = fmt.Fscanln(bufio.NewReader(out), &pid); err != nil {
		_ = cmd.Process.Kill()
		wake()
		return 0, errors.Join(fmt.Errorf("%s does not say its job's pid: %w", cmd.Path, err), cmd.Wait(), errors.New(said.String()))
	}
	return pid, nil
}

// exitAfterKill takes the time until a command, of which nothing is the job
// itself, has ended.
func exitAfterKill(argv ...string) (float64, error) {
	argv = sayPID(argv...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	pid, err := launch(cmd)
	if err != nil {
		return 0, err
	}
	began, err := kill(pid)
	werr := cmd.Wait()
	took := ms(time.Since(began))
	if exit := (*exec.ExitError)(nil); werr != nil && !errors.As(werr, &exit) {
		err = errors.Join(err, werr)
	}
	return took, err
}

// reportAfterKill takes the time until a command of unitward's has written its
// report.
func reportAfterKill(argv ...string) (float64, error) {
	argv = sayPID(append(argv, "--report", "fd:3", "--")...)
	out, in, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.ExtraFiles = []*os.File{in}
	pid, err := launch(cmd)
	in.Close()
	if err != nil {
		return 0, err
	}
	began, err := kill(pid)
	if err != nil {
		return 0, err
	}
	report := make([]byte, 0, 1<<16)
	for !bytes.HasSuffix(bytes.TrimSpace(report), []byte("}")) {
		n, err := out.Read(report[len(report):cap(report)])
		if err != nil {
			return 0, errors.Join(fmt.Errorf("cannot read the report: %w", err), cmd.Wait())
		}
		report = report[:len(report)+n]
	}
	took := ms(time.Since(began))
	_ = cmd.Wait() // with 137
	if !strings.Contains(string(report), `"confirmed":true`) && !strings.Contains(string(report), `"confirmed": true`) {
		return 0, fmt.Errorf("the end is not confirmed: %s", report)
	}
	return took, nil
}

// answerAfterKill takes the time until the server answers job.run.
func (s *server) answerAfterKill(isolation string) (float64, error) {
	s.ask("job.run", job(isolation, "sleep", "1000"))
	var pid int
	select {
	case pid = <-s.pids:
	case <-time.After(patience):
		return 0, fmt.Errorf("the server tells of no job in %v", patience)
	}
	began, err := kill(pid)
	if err == nil {
		err = s.slot(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return ms(s.answered.Sub(began)), err
}

// bareAfterKill takes the time until the manager tells that it has removed the
// unit.
func bareAfterKill(ctx context.Context, manager string) (float64, error) {
	b, err := bareConnect(ctx, manager)
	if err != nil {
		return 0, err
	}
	defer b.conn.Close()
	b.start(ctx, bareService("/bin/sleep", "1000"))
	if err := (<-b.calls).Err; err != nil {
		return 0, err
	}
	pid, err := b.mainPID(ctx)
	if err != nil {
		return 0, err
	}
	began, err := kill(pid)
	if err == nil {
		err = b.await(ctx)
	}
	return ms(time.Since(began)), err
}

// mainPID waits until the last unit has a main process.
func (b *bare) mainPID(ctx context.Context) (int, error) {
	for {
		var path dbus.ObjectPath
		if err := b.object().CallWithContext(ctx, managerName+".Manager.GetUnit", 0, fmt.Sprint(b.prefix, b.next, ".service")).Store(&path); err != nil {
			return 0, err
		}
		v, err := b.conn.Object(managerName, path).GetProperty(managerName + ".Service.MainPID")
		if err != nil {
			return 0, err
		}
		if pid, ok := v.Value().(uint32); ok && pid > 0 {
			return int(pid), nil
		}
		time.Sleep(time.Millisecond)
	}
}

// cloneAfterKill takes the time until a child in a cgroup of its own has been
// waited for, and the cgroup is gone.
func cloneAfterKill() (float64, error) {
	parent, err := ownCgroup()
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(parent, fmt.Sprintf("bench-verdict-%d", os.Getpid()))
	p, err := cloneInto(dir, "/bin/sleep", "1000")
	if err != nil {
		return 0, err
	}
	began, err := kill(p.Pid)
	_, werr := p.Wait()
	err = errors.Join(err, werr, syscall.Rmdir(dir))
	return ms(time.Since(began)), err
}
