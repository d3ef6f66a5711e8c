// Package manual writes the manual pages and the shell completions of a
// command line. What options there are, and what each verb does, comes from
// the command tree; what else there is to say comes from files of prose beside
// the code. Nothing is written twice.
package manual

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Write writes the pages of root to dir/man and its completions to
// dir/completions; it makes the directories. A program without verbs is started
// by others, and has no completions.
//
// prose has, by the names of the pages, what follows the options on a page of
// section 1, and whole pages of the other sections, without their first three
// lines: all in the language of mdoc(7). date is the date of every page.
func Write(root *cobra.Command, prose fs.FS, dir string, date time.Time) error {
	pages, err := Pages(root, prose, date)
	if err != nil {
		return err
	}
	if err := writeFiles(filepath.Join(dir, "man"), pages); err != nil {
		return err
	}
	if !root.HasSubCommands() {
		return nil
	}
	files, err := Completions(root)
	if err != nil {
		return err
	}
	return writeFiles(filepath.Join(dir, "completions"), files)
}

func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot write the manual: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("cannot write the manual: %w", err)
		}
	}
	return nil
}

// Completions are the scripts for bash, zsh and fish, by the names that these
// shells look for.
func Completions(root *cobra.Command) (map[string][]byte, error) {
	files := map[string][]byte{}
	name := root.Name()
	for file, generate := range map[string]func(io.Writer) error{
		name:           func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_" + name:     root.GenZshCompletion,
		name + ".fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
	} {
		var b bytes.Buffer
		if err := generate(&b); err != nil {
			return nil, fmt.Errorf("cannot write the completion %s: %w", file, err)
		}
		files[file] = b.Bytes()
	}
	return files, nil
}

// Pages are the manual pages by their file names. It is an error when there is
// prose for a page that does not exist.
func Pages(root *cobra.Command, prose fs.FS, date time.Time) (map[string][]byte, error) {
	text := map[string]string{}
	entries, err := fs.ReadDir(prose, ".")
	if err != nil {
		return nil, fmt.Errorf("cannot read the prose: %w", err)
	}
	for _, e := range entries {
		b, err := fs.ReadFile(prose, e.Name())
		if err != nil {
			return nil, fmt.Errorf("cannot read the prose: %w", err)
		}
		text[e.Name()] = string(b)
	}
	root.InitDefaultVersionFlag()
	files := map[string][]byte{}
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		if cmd.Hidden || cmd.Name() == "help" {
			continue
		}
		cmd.InitDefaultHelpFlag()
		file := pageName(cmd) + ".1"
		files[file] = []byte(heading(pageName(cmd), "1", date) + commandPage(cmd, text[file]))
		delete(text, file)
	}
	var errs []error
	for file, body := range text {
		page, section, _ := strings.Cut(file, ".")
		if section == "1" || section == "" {
			errs = append(errs, fmt.Errorf("cannot use the prose %s: there is no such command", file))
			continue
		}
		files[file] = []byte(heading(page, section, date) + body)
	}
	return files, errors.Join(errs...)
}

func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

func heading(page, section string, date time.Time) string {
	return fmt.Sprintf(".Dd %s\n.Dt %s %s\n.Os\n", date.UTC().Format("January 2, 2006"), strings.ToUpper(page), section)
}
