package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandPage is the page of a command, without its heading.
func commandPage(cmd *cobra.Command, prose string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".Sh NAME\n.Nm %s\n.Nd %s\n", pageName(cmd), escape(lower(cmd.Short)))
	fmt.Fprintf(&b, ".Sh SYNOPSIS\n%s", synopsis(cmd))
	fmt.Fprintf(&b, ".Sh DESCRIPTION\n%s", paragraphs(describe(cmd)))
	if cmd.HasSubCommands() {
		b.WriteString(verbs(cmd))
	}
	if own := options(cmd.LocalNonPersistentFlags()); own != "" {
		b.WriteString(".Sh OPTIONS\n" + own + common(cmd))
	}
	if !strings.Contains(prose, ".Sh EXIT STATUS\n") && cmd.HasParent() {
		prose = ".Sh EXIT STATUS\nZero, and 125 when it could not do what was asked.\nSee\n.Xr " + cmd.Root().Name() + " 1 .\n" + prose
	}
	b.WriteString(prose)
	if !strings.Contains(prose, ".Sh SEE ALSO\n") {
		fmt.Fprintf(&b, ".Sh SEE ALSO\n.Xr %s 1 ,\n.Xr %s 7\n", cmd.Root().Name(), cmd.Root().Name())
	}
	return b.String()
}

func describe(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return cmd.Name() + " is to " + lower(cmd.Short) + "."
}

// synopsis turns a command's line of use into mdoc. Words in capitals are
// placeholders, those in brackets optional; a bar stands between alternatives.
func synopsis(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".Nm %s\n", cmd.CommandPath())
	if cmd.HasSubCommands() {
		b.WriteString(".Op Ar OPTIONS\n.Ar VERB\n.Op Ar ARGUMENT ...\n")
		return b.String()
	}
	line := strings.TrimPrefix(cmd.Use, cmd.Name())
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		var word string
		optional := line[0] == '['
		if optional {
			word, line, _ = strings.Cut(line[1:], "]")
		} else {
			word, line, _ = strings.Cut(line, " ")
		}
		if word == "|" {
			b.WriteString("|\n")
			continue
		}
		b.WriteString(".")
		if optional {
			b.WriteString("Op ")
		}
		var marked []string
		for _, w := range strings.Fields(word) {
			w, more := strings.CutSuffix(w, "...")
			switch {
			case w == "--":
				w = "Fl Fl" // a dash of each
			case strings.HasPrefix(w, "-"):
				w = "Fl " + w[1:]
			case strings.ToUpper(w) == w:
				w = "Ar " + w
			default:
				w = "Cm " + w
			}
			if more {
				w += " ..."
			}
			marked = append(marked, w)
		}
		b.WriteString(strings.Join(marked, " ") + "\n")
	}
	return b.String()
}

func verbs(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(".Pp\nThe verbs are:\n.Bl -tag -width Ds\n")
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && cmd.Name() != "help" {
			fmt.Fprintf(&b, ".It Xr %s 1\n%s.\n", pageName(cmd), escape(cmd.Short))
		}
	}
	b.WriteString(".It Cm help Op Ar VERB\nThe same as the option\n.Fl -help\nof a verb.\n.El\n")
	return b.String()
}

// options is a list of them; empty without one.
func options(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		b.WriteString(".It ")
		if f.Shorthand != "" {
			fmt.Fprintf(&b, "Fl %s , ", f.Shorthand)
		}
		b.WriteString("Fl -" + f.Name)
		if value != "" {
			b.WriteString(" Ar " + value)
		}
		text := upper(usage)
		if value != "" && f.DefValue != "" && f.DefValue != "0" && f.DefValue != "[]" {
			text += ". The default is " + f.DefValue
		}
		b.WriteString("\n" + paragraphs(text+"."))
	})
	if b.Len() == 0 {
		return ""
	}
	return ".Bl -tag -width Ds\n" + b.String() + ".El\n"
}

// common are the options that all verbs share, and how options are read.
func common(cmd *cobra.Command) string {
	if !cmd.HasParent() && !cmd.HasSubCommands() {
		return ""
	}
	if !cmd.HasParent() {
		return ".Pp\nEach verb also takes:\n" + options(cmd.PersistentFlags())
	}
	text := options(cmd.InheritedFlags())
	if text != "" {
		text = ".Pp\nOptions of all verbs:\n" + text
	}
	if takesCommand(cmd) && cmd.LocalNonPersistentFlags().HasAvailableFlags() {
		text += ".Pp\nOptions end at the first word that is none, which is the command.\n"
	}
	return text
}

func takesCommand(cmd *cobra.Command) bool {
	return slices.Contains(strings.Fields(cmd.Use), "COMMAND")
}
