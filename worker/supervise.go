package worker

import "github.com/wakepoint/wakepoint/activities/tool/exec"

// SuperviseArgument is the first argument with which the executor exec starts
// this program again as the supervisor of a job; see [Options.SupervisorArgv].
const SuperviseArgument = "internal-supervise"

// Supervise runs the supervisor of one job and gives the exit code. A program
// that embeds a worker with exec tools calls it first thing in main, with what
// follows [SuperviseArgument]:
//
//	if len(os.Args) > 1 && os.Args[1] == worker.SuperviseArgument {
//		os.Exit(worker.Supervise(os.Args[2:]))
//	}
func Supervise(args []string) int { return exec.SupervisorMain(args) }
