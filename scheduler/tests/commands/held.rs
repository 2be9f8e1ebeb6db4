//! A run of `sched run` that a test can halt at a known moment: its policy, an `exec:` script, answers only when the test allows it.

use std::process::Command;

use front_door::{Background, Door, wait_until};
use rustix::process::Signal;

/// The actions that start these jobs under plans on devices.
pub(crate) fn starts(jobs: &[(u32, &str, &[u32])]) -> String {
    let start = |(job, plan, devices): &(u32, &str, &[u32])| {
        format!(r#"{{"start": {{"job": {job}, "plan": "{plan}", "devices": {devices:?}}}}}"#)
    };
    jobs.iter().map(start).collect::<Vec<_>>().join(", ")
}

/// A halted run. Dropping it ends the run.
pub(crate) struct Held<'a> {
    door: &'a Door,
    run: Background,
}

impl<'a> Held<'a> {
    /// Starts a run and returns once it is halted. The policy answers each turn with the actions `first`, and with `later` once a job has
    /// ended. It stops answering when a job has reported steps and the shell command `condition` succeeds. While a run is halted, launches
    /// do the steps that they were granted and then wait.
    pub(crate) fn start(
        door: &'a Door,
        mut run: Command,
        (first, later): (&str, &str),
        condition: &str,
    ) -> Held<'a> {
        let policy = format!(
            r#"n=0 reported=no ended=no
while IFS= read -r line; do
    case $line in *'"state":"ended"'*) ended=yes ;; esac
    case $line in *'"steps_done":'[1-9]*) reported=yes ;; esac
    if test $ended = yes; then actions='{later}'; else actions='{first}'; fi
    if test $reported = yes && test -e hold && {{ {condition}; }}; then
        touch held
        while test -e hold; do sleep 0.02; done
    fi
    if test -e slow; then sleep 0.2; fi
    echo "{{\"turn\": $n, \"actions\": [$actions]}}"
    n=$((n + 1))
done
"#
        );
        door.write("held.sh", &policy);
        door.write("hold", "");
        run.args(["--policy", "exec:sh held.sh"]);
        let mut run = Background::start(run);
        wait_until("the run is held", || {
            assert!(!run.has_ended(), "it has ended: {:?}", run.wait());
            door.path("held").exists()
        });
        Held { door, run }
    }

    /// Resumes the run and waits for its end. Returns the exit code and stderr.
    pub(crate) fn go_on(mut self) -> (Option<i32>, String) {
        remove(self.door, "hold");
        self.run.wait()
    }

    /// Sends a signal, then resumes the run. Each answer of the policy takes 0.2 s, so that the run handles the signal before its jobs end.
    pub(crate) fn interrupt(self, signal: Signal) -> (Option<i32>, String) {
        let door = self.door;
        door.write("slow", "");
        self.run.send(signal);
        let end = self.go_on();
        remove(door, "slow");
        end
    }

    /// Kills the halted run and waits until no process of it is left.
    pub(crate) fn kill(mut self) {
        self.run.send(Signal::KILL);
        self.run.wait();
        self.door.wait_until_nothing_is_left();
        remove(self.door, "hold");
    }
}

fn remove(door: &Door, name: &str) {
    std::fs::remove_file(door.path(name)).expect("it was written");
}
