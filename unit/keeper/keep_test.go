package keeper

import (
	"fmt"
	"os"
)

// keep is a keeper in a process of its own: it runs $JOB, says the reaper's
// and the main process's numbers, and ends as the job does.
func keep() {
	s, err := NewSubreaper()
	if err != nil {
		panic(err)
	}
	c := shell(os.Getenv("JOB"))
	c.Stdout = os.Stdout
	if os.Getenv("HANGUP") == "stay" {
		c.OnHangup = HangupStay
	}
	if file := os.Getenv("RECORD"); file != "" {
		if c.Record, err = os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			panic(err)
		}
	}
	r, err := s.Fork(c)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.PID(), r.MainPID())
	if err := r.Execute(); err != nil {
		panic(err)
	}
	<-r.Childless()
	os.Exit(r.Exit().Status.ExitStatus())
}
