//! A `sched` in the background, and what is left when it is gone.

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rig::processes::strays;
use rustix::process::{Pid, Signal, kill_process};

use crate::door::Door;

/// Inherited by all that a run starts, so that what is left of it can be found.
const MARK: &str = "TANDEM_TEST_FOLDER";

/// Does not outlive a test that fails.
pub(crate) struct Background(Child);

impl Background {
    pub(crate) fn start(door: &Door, arguments: &str) -> Background {
        Background::spawn(door, door.command(arguments))
    }

    pub(crate) fn spawn(door: &Door, mut command: Command) -> Background {
        command.env(MARK, door.path("")).stdout(Stdio::null()).stderr(Stdio::piped());
        Background(command.spawn().expect("sched starts"))
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it is ours, and not waited for");
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is ours").is_some()
    }

    /// Waits for its end; the exit code, absent after a signal, and what it said on stderr.
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        let stderr = self.0.stderr.as_mut().expect("it was piped");
        stderr.read_to_string(&mut said).expect("it speaks UTF-8");
        (self.0.wait().expect("it is ours").code(), said)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until nothing runs any more that a run in this folder has started.
pub(crate) fn until_nothing_is_left(door: &Door) {
    let mark = format!("{MARK}={}", door.path("").display());
    wait_until("nothing is left", || strays(-1, &mark).is_empty());
}

/// Panics after a time that only a hanging program takes.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
