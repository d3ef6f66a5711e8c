package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"
)

// The parts of CycloneDX 1.6 that are said here
// (https://cyclonedx.org/docs/1.6/json/).
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	SerialNumber string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     bomMetadata  `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// writeSBOM lists the modules that the go command has noted in a binary, with
// the Go that built it. The same arguments give the same bytes.
func writeSBOM(out io.Writer, binary, version string, at time.Time) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("cannot list the modules: %w", err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("cannot list the modules: %w", err)
	}
	sum := sha256.Sum256(content)
	main := goModule("application", info.Main.Path, version)
	main.Name = path.Base(info.Path)
	main.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	b := bom{
		Format: "CycloneDX", SpecVersion: "1.6", SerialNumber: serial(sum), Version: 1,
		Metadata: bomMetadata{Timestamp: at.Format(time.RFC3339), Component: main},
	}
	b.Components = append(b.Components, goModule("library", "std", strings.TrimPrefix(info.GoVersion, "go")))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := goModule("library", m.Path, m.Version)
		if h1, ok := strings.CutPrefix(m.Sum, "h1:"); ok { // of the module's list of files, by SHA-256
			if raw, err := base64.StdEncoding.DecodeString(h1); err == nil {
				c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}}
			}
		}
		b.Components = append(b.Components, c)
	}
	all := dependency{Ref: main.Ref}
	for _, c := range b.Components {
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{all}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(b)
}

func goModule(kind, module, version string) component {
	purl := "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Ref: purl, Name: module, Version: version, PURL: purl}
}

// serial is a UUID that is the binary's own (RFC 9562, version 8).
func serial(sum [sha256.Size]byte) string {
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
