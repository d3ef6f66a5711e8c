package property

import (
	"slices"
	"strings"
)

// Complete proposes how an assignment of a job's property can go on that begins
// like start: names that a user may set, with "=", or after that the values of
// one that takes few. It is sorted, and empty where nothing is known.
func Complete(start string) []string { return completeJob(start, lookup) }

// CompleteScope is Complete for a job that is a scope.
func CompleteScope(start string) []string { return completeJob(start, lookupScope) }

func completeJob(start string, lookup func(string) (*syntax, int)) []string {
	return complete(start, func(yield func(string) bool) {
		for name := range names {
			if s, _ := lookup(name); s != nil && Reserved(name) == nil && !yield(name) {
				return
			}
		}
	}, lookup)
}

// CompleteTrigger is Complete for a property of a timer, path or socket.
func CompleteTrigger(t Trigger, start string) []string {
	return complete(start, func(yield func(string) bool) {
		for _, table := range t.tables() {
			for i := range table {
				if s, _ := t.lookup(table[i].name); s != nil && !yield(table[i].name) {
					return
				}
			}
		}
	}, t.lookup)
}

func complete(start string, known func(func(string) bool), lookup func(string) (*syntax, int)) []string {
	var all []string
	name, value, assigned := strings.Cut(start, "=")
	if !assigned {
		for k := range known {
			if strings.HasPrefix(k, name) {
				all = append(all, k+"=")
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	s, _ := lookup(name)
	if s == nil {
		return nil
	}
	propose := func(word string) {
		if strings.HasPrefix(word, value) {
			all = append(all, name+"="+word)
		}
	}
	for word := range s.choices {
		propose(word)
	}
	if s.boolean || s == &booleanSyntax {
		propose("yes")
		propose("no")
	}
	slices.Sort(all)
	return all
}
