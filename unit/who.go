package unit

// Who names the processes of a job that a signal is for.
type Who string

const (
	// WhoMain is the main process.
	WhoMain Who = "main"
	// WhoAll is every process of the job.
	WhoAll Who = "all"
)
