package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// writeConfig writes what nfpm reads for one package of one kind: the file
// with ${ARCH}, ${VERSION} and ${BUILD} filled in. ${CHANGELOG} is for rpm
// alone: nfpm's own form of Debian's changelog is not Debian's.
func writeConfig(out io.Writer, file, kind, arch, version, build string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("cannot read the package's description: %w", err)
	}
	log := ""
	if kind == "rpm" {
		log = filepath.Join(build, "changelog.yaml")
	}
	text := strings.NewReplacer("${ARCH}", arch, "${VERSION}", version, "${BUILD}", build, "${CHANGELOG}", log).Replace(string(b))
	var done strings.Builder
	for line := range strings.Lines(text) {
		lines := []string{line}
		if strings.Contains(line, "type: doc") && strings.Contains(line, "packager: "+kind) {
			if lines, err = expand(line); err != nil {
				return fmt.Errorf("cannot use %s: %w", file, err)
			}
		}
		done.WriteString(strings.Join(lines, ""))
	}
	_, err = io.WriteString(out, done.String())
	return err
}

// expand makes a line for each file that a line with a pattern matches, which
// nfpm does for plain files but not for documentation.
func expand(line string) ([]string, error) {
	_, rest, ok := strings.Cut(line, `src: "`)
	pattern, _, ok2 := strings.Cut(rest, `"`)
	_, rest, ok3 := strings.Cut(line, "dst: ")
	dst, _, ok4 := strings.Cut(rest, ",")
	if !ok || !ok2 || !ok3 || !ok4 {
		return nil, errors.New(`no src: "…" and dst: …, in ` + strings.TrimSpace(line))
	}
	if !strings.Contains(pattern, "*") {
		return []string{line}, nil
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file matches %s", pattern)
	}
	var lines []string
	for _, f := range files {
		lines = append(lines, strings.NewReplacer(pattern, f, "dst: "+dst, "dst: "+dst+filepath.Base(f)).Replace(line))
	}
	return lines, nil
}
