package manual

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/spf13/cobra"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"a-b": "a-b", "--for": `\-\-for`, `a\xNN`: `a\exNN`, "(-20": `(\-20`, "-- x": `\-\- x`, "": "",
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestParagraphs(t *testing.T) {
	const in = "One sentence. Another\none.\n\n.dot begins a line, and 'quote.\n" + "word word word word word word word word word word word word word word word word word"
	const want = "One sentence.\nAnother one.\n.Pp\n\\&.dot begins a line, and 'quote.\n" +
		"word word word word word word word word word word word word word word word\nword word\n"
	if got := paragraphs(in); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPages(t *testing.T) {
	root := &cobra.Command{Use: "x", Short: "Do x", Long: "x does it."}
	verb := &cobra.Command{Use: "go [OPTIONS] NAME... | --dir DIR [--] COMMAND", Short: "Go there", Run: func(*cobra.Command, []string) {}}
	verb.Flags().StringP("dir", "d", "here", "go to `DIR`")
	verb.Flags().Bool("secret", false, "")
	_ = verb.Flags().MarkHidden("secret")
	root.AddCommand(verb)
	pages, err := Pages(root, fstest.MapFS{"x-go.1": {Data: []byte(".Sh EXAMPLES\nOne.\n")}, "x.5": {Data: []byte(".Sh NAME\n")}}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	const want = `.Dd January 1, 1970
.Dt X-GO 1
.Os
.Sh NAME
.Nm x-go
.Nd go there
.Sh SYNOPSIS
.Nm x go
.Op Ar OPTIONS
.Ar NAME ...
|
.Fl -dir
.Ar DIR
.Op Fl Fl
.Ar COMMAND
.Sh DESCRIPTION
go is to go there.
.Sh OPTIONS
.Bl -tag -width Ds
.It Fl d , Fl -dir Ar DIR
Go to DIR.
The default is here.
.It Fl h , Fl -help
Help for go.
.El
.Pp
Options end at the first word that is none, which is the command.
.Sh EXIT STATUS
Zero, and 125 when it could not do what was asked.
See
.Xr x 1 .
.Sh EXAMPLES
One.
.Sh SEE ALSO
.Xr x 1 ,
.Xr x 7
`
	if got := string(pages["x-go.1"]); got != want {
		t.Errorf("%s", got)
	}
	if len(pages) != 3 || !strings.HasPrefix(string(pages["x.5"]), ".Dd January 1, 1970\n.Dt X 5\n.Os\n.Sh NAME\n") {
		t.Errorf("pages: %q", pages)
	}
	if _, err := Pages(root, fstest.MapFS{"x-stay.1": {}}, time.Unix(0, 0)); err == nil {
		t.Error("prose without a command was taken")
	}
	files, err := Completions(root)
	if err != nil || len(files) != 3 || !strings.HasPrefix(string(files["_x"]), "#compdef x\n") {
		t.Errorf("completions: %d, %v", len(files), err)
	}
}
