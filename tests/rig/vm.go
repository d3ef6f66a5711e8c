package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// VM is an emulated machine that runs one script: it has a kernel of its own
// and every controller on one cgroup v2 hierarchy, and needs no KVM.
type VM struct {
	Suite      Suite
	Script     string            // run as root by /bin/sh's rules for #!
	Add        map[string]string // files and directories: name inside, path on the host
	KernelArgs []string
	Timeout    time.Duration
}

// vmUnit runs the script when the system is up. The second serial line carries
// its output, and its status after a line feed of our own.
const vmUnit = `[Unit]
After=multi-user.target systemd-user-sessions.service user@1000.service
[Service]
Type=exec
WorkingDirectory=/opt/rig
ExecStartPre=/bin/stty -F /dev/ttyS1 raw -echo
StandardInput=null
StandardOutput=file:/dev/ttyS1
StandardError=inherit
ExecStart=/opt/rig/script
ExecStopPost=/bin/sh -c 'printf "\n` + vmStatus + ` %%s %%s\n" "$EXIT_CODE" "$EXIT_STATUS" > /dev/ttyS1; stty -F /dev/ttyS1 > /dev/null; systemctl poweroff -ff > /dev/null 2>&1'
`

const vmStatus = "rig-status"

// vmKernelArgs boot quickly under emulation.
const vmKernelArgs = "console=ttyS0 rdinit=/sbin/init quiet panic=-1 systemd.show_status=0 " +
	"mitigations=off nokaslr tsc=reliable no_timer_check audit=0 apparmor=0 selinux=0 random.trust_cpu=on cryptomgr.notests=1 nowatchdog"

// Run boots the machine, copies the script's output to out, and returns the
// script's exit status.
func (v VM) Run(ctx context.Context, out io.Writer) (int, error) {
	if err := need(ctx, "qemu-system-x86_64"); err != nil {
		return -1, err
	}
	if err := Build(ctx, v.Suite); err != nil {
		return -1, err
	}
	kernel, err := Kernel(ctx, v.Suite)
	if err != nil {
		return -1, err
	}
	dir, leave, err := runDir()
	if err != nil {
		return -1, err
	}
	defer leave()
	initrd := filepath.Join(dir, "initrd")
	if err := v.image(ctx, initrd, filepath.Join(filepath.Dir(kernel), "modules")); err != nil {
		return -1, err
	}
	console := filepath.Join(dir, "console")
	return v.emulate(ctx, kernel, initrd, console, out)
}

// runDir makes the directory of one run. It removes those that killed drivers
// left: a directory belongs to a driver as long as that holds its lock.
func runDir() (dir string, leave func(), err error) {
	held, err := hold()
	if err != nil {
		return "", nil, err
	}
	defer held.Close()
	const prefix = "vm-run-"
	old, _ := filepath.Glob(filepath.Join(stateDir(), prefix+"*"))
	for _, dir := range old {
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			continue
		}
		if tryLock(f) == nil {
			os.RemoveAll(dir)
		}
		f.Close()
	}
	if dir, err = os.MkdirTemp(stateDir(), prefix); err != nil {
		return "", nil, fmt.Errorf("cannot make a machine: %w", err)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err == nil {
		err = tryLock(lock)
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, fmt.Errorf("cannot make a machine: %w", err)
	}
	return dir, func() {
		os.RemoveAll(dir)
		lock.Close()
	}, nil
}

// image writes the suite's archive and, after it, what is particular to this
// run; the kernel lays the second over the first.
func (v VM) image(ctx context.Context, at, modules string) error {
	base, err := baseImage(ctx, v.Suite)
	if err != nil {
		return err
	}
	f, err := os.Create(at)
	if err != nil {
		return fmt.Errorf("cannot make the machine's image: %w", err)
	}
	defer f.Close()
	if err := copyTo(f, base); err != nil {
		return fmt.Errorf("cannot make the machine's image: %w", err)
	}
	a := newArchive(f)
	const units = "etc/systemd/system/"
	errs := []error{
		a.dir("opt/rig", 0o755),
		a.text("opt/rig/script", 0o755, v.Script),
		a.tree(modules, "opt/rig/modules", nil),
		a.text("etc/hostname", 0o644, "rig-"+v.Suite.Name+"\n"),
		a.text(units+"rig.service", 0o644, vmUnit),
		a.dir(units+"multi-user.target.wants", 0o755),
		a.link(units+"multi-user.target.wants/rig.service", "../rig.service"),
	}
	for name, path := range v.Add {
		errs = append(errs, a.tree(path, strings.TrimPrefix(name, "/"), nil))
	}
	if err := errors.Join(append(errs, a.end())...); err != nil {
		return fmt.Errorf("cannot make the machine's image: %w", err)
	}
	return nil
}

func (v VM) emulate(ctx context.Context, kernel, initrd, console string, out io.Writer) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.Timeout, fmt.Errorf("cannot wait longer than %s for the machine", v.Timeout))
	defer cancel()
	args := []string{
		// One thread for both processors: while several run, a kernel that
		// rewrites its own code (a static key, such as for the first CPU
		// quota) can be caught half way and panics.
		"-accel", envOr("UNITWARD_RIG_ACCEL", "tcg,thread=single"), "-machine", "pc", "-cpu", "max,la57=off", "-smp", "2", "-m", "2048",
		"-nodefaults", "-display", "none", "-no-reboot",
		"-serial", "file:" + console, "-serial", "stdio",
		"-kernel", kernel, "-initrd", initrd, "-append", strings.Join(append([]string{vmKernelArgs}, v.KernelArgs...), " "),
	}
	var errors bytes.Buffer
	status := &statusWriter{out: out}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	cmd.Stdout, cmd.Stderr = status, &errors
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setsid: true}
	cmd.WaitDelay = 5 * time.Second
	err := tiedToThread(cmd.Run)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if werr := status.flush(); werr != nil && err == nil {
		err = werr
	}
	if code, ok := status.exit(); ok {
		return code, nil
	}
	log, _ := os.ReadFile(console)
	return -1, fmt.Errorf("cannot tell how the script ended in %s: %q (qemu: %v)\n%s%s", v.Suite.Name, status.status, err, errors.String(), lastLines(string(log), 40)) //nolint:errorlint // nil is worth saying too
}

func envOr(name, value string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return value
}

// statusWriter passes whole lines on and keeps the one with the status.
type statusWriter struct {
	out    io.Writer
	line   []byte
	status string
}

func (w *statusWriter) Write(p []byte) (int, error) {
	w.line = append(w.line, p...)
	for {
		i := bytes.IndexByte(w.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := w.line[:i+1]
		w.line = w.line[i+1:]
		if s, ok := bytes.CutPrefix(line, []byte(vmStatus+" ")); ok {
			w.status = strings.TrimSpace(string(s))
			continue
		}
		if _, err := w.out.Write(line); err != nil {
			return 0, err
		}
	}
}

func (w *statusWriter) flush() error {
	_, err := w.out.Write(w.line)
	return err
}

// exit reads "exited 3" or "killed TERM".
func (w *statusWriter) exit() (int, bool) {
	how, what, _ := strings.Cut(w.status, " ")
	switch how {
	case "exited":
		code, err := strconv.Atoi(what)
		return code, err == nil
	case "killed", "dumped":
		return 128 + int(unix.SignalNum("SIG"+what)), true
	}
	return -1, false
}

func cmdVM(ctx context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("vm", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 10*time.Minute, "how long it may run")
	add := map[string]string{}
	flags.Func("add", "put this file or directory into /opt/rig", func(path string) error {
		add["opt/rig/"+filepath.Base(path)] = path
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	if flags.NArg() < 2 {
		return 2, usageError("cannot emulate: vm [-add PATH]... SUITE SCRIPT [KERNEL-ARG...]")
	}
	s, err := FindSuite(flags.Arg(0))
	if err != nil {
		return 2, err
	}
	script, err := os.ReadFile(flags.Arg(1))
	if err != nil {
		return 1, fmt.Errorf("cannot read the script: %w", err)
	}
	return VM{Suite: s, Script: string(script), Add: add, KernelArgs: flags.Args()[2:], Timeout: *timeout}.Run(ctx, os.Stdout)
}
