// Package launch is a job's life: start, attach, wait, stop, settle.
//
//	             start job done          main process ended        tree empty
//	(record) ──▶ starting ──────▶ running ──────────────▶ ended ─────────────▶ settled
//	                │                │ stop                  ▲                    ▲
//	                │                └──────▶ stopping ──────┴────────────────────┤
//	                └── nothing ran ──────────────────────────────────────────────┘
//
// A job is unknown while the evidence does not say where it is. No transition
// is believed from a signal or an error: each is what package verify made of
// an observation.
package launch
