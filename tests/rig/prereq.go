package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// tools are the programs that the rig calls, with the Debian package of each.
var tools = map[string]string{
	"mmdebstrap":         "mmdebstrap",
	"qemu-system-x86_64": "qemu-system-x86",
	"dpkg-deb":           "dpkg",
	"make":               "make",
	"lintian":            "lintian",
	"cpio":               "cpio",
	"rpm":                "rpm",
	"rpmlint":            "rpmlint",
	"mandoc":             "mandoc",
	"node":               "nodejs",
	"npm":                "npm",
	"python3":            "python3",
}

var installing sync.Mutex

// need sees to it that the programs are there; as root on a Debian system it
// installs what is missing.
func need(ctx context.Context, programs ...string) error {
	installing.Lock()
	defer installing.Unlock()
	missing := missingPackages(programs)
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("cannot find %s: install the counterpart of Debian's %s", strings.Join(programs, ", "), list)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("cannot install %s: needs root (apt-get install %s)", list, list)
	}
	note("installing %s", list)
	if err := aptGet(ctx, "update"); err != nil {
		return err
	}
	if err := aptGet(ctx, append([]string{"install", "-y", "--no-install-recommends"}, missing...)...); err != nil {
		return err
	}
	if missing := missingPackages(programs); len(missing) > 0 {
		return fmt.Errorf("cannot find the programs of %s, although apt-get installed it", strings.Join(missing, ", "))
	}
	return nil
}

func missingPackages(programs []string) []string {
	var missing []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil && !slices.Contains(missing, tools[p]) {
			missing = append(missing, tools[p])
		}
	}
	return missing
}

func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-qq", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return runQuietly(cmd)
}
