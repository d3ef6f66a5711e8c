// Package group looks at and signals an owned process group: the rung of a job
// on a host where neither a manager nor a cgroup can hold it.
//
// A job of this rung is started as the leader of its own session, which makes
// its pid, group and session one number. Every process of the job descends
// from it; those that stay in the session can be named and signalled here, and
// those that made their own are the keeper's to reach while it lives.
//
// # When is the number still ours?
//
// Linux gives a number to nobody else while it is a process's, a group's or a
// session's (kernel/pid.c: a struct pid is freed when its last user of any
// kind is). So:
//
//   - the leader is there with the recorded start time: the number is ours;
//   - a process of that number has another start time: our group and our
//     session had become empty before, and nothing there is ours;
//   - no process has the number: the group is ours when it has members and
//     every one of them is of our session and started no earlier than the
//     job. A group lies in one session, a member of ours descends from the
//     leader, and a job-control group of someone else is in the session of
//     its shell.
//
// What the last rule cannot tell apart is a later session that got the same
// number after all numbers were used up once, and lost its leader in its turn.
//
// # The marker
//
// A job is started with UNITWARD_JOB=<name>. Names are used again once a job
// is settled, so a process counts by its marker only when it also started no
// earlier than the job. No number of the start is put into the value: jobs
// read it as their name, and what an equal name of another job (of another
// user, or started by a job that was called settled on weak evidence) can do
// is withhold a confirmation, never give one. For the same reason a marker
// authorises nothing: a process found by it alone is named and never
// signalled, since any process can set the variable.
package group
