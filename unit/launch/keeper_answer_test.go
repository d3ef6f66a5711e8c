package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/unitward/unitward/unit"
)

// What goes wrong in a keeper is told as it is: whether the next isolation is tried
// hangs on it.
func TestKeeperAnswers(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
		next bool
	}{
		{nil, nil, false},
		{&unit.IsolationError{Isolation: "scope", Refused: []unit.Refusal{{What: "a", Why: "b"}}}, &unit.IsolationError{Isolation: "scope", Refused: []unit.Refusal{{What: "a", Why: "b"}}}, true},
		{fmt.Errorf("so: %w", &unit.NoManagerError{Manager: unit.ManagerUser, Tried: []string{"x: gone"}}), &unit.NoManagerError{Manager: unit.ManagerUser, Tried: []string{"x: gone"}}, true},
		{&unit.AccessError{Op: "start a.scope", Action: "b", Detail: "c"}, &unit.AccessError{Op: "start a.scope", Action: "b", Detail: "c"}, true},
		{&unit.LimitsError{Limit: unit.Limit{Name: "TasksMax"}}, &unit.LimitsError{Limit: unit.Limit{Name: "TasksMax"}}, false},
		{&unit.StartError{Unit: "a", Status: 126, Hints: []string{"b"}}, &unit.StartError{Unit: "a", Status: 126, Hints: []string{"b"}}, false},
		{&AskError{Problem: "odd", Help: "be even"}, &toldError{"odd", []string{"be even"}}, false},
		{errors.New("odd"), &toldError{text: "odd"}, false},
	} {
		b, err := json.Marshal(tell(c.err))
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		if got := a.err(); !reflect.DeepEqual(got, c.want) || givesWay(got) != c.next {
			t.Errorf("%v is told as %#v by %s; the next is tried: %v", c.err, got, b, givesWay(got))
		}
	}
}
