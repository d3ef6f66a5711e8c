package capture

import (
	"os"
	"testing"
)

// TestMain lets this program be the process that captures and is killed.
func TestMain(m *testing.M) {
	if role := os.Getenv("CAPTURE_TEST_ROLE"); role != "" {
		child(role)
		os.Exit(0)
	}
	os.Exit(m.Run())
}
