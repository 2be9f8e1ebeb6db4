use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// A process that does not outlive a test that fails.
pub struct KilledAtTheEnd(pub Child);

impl Drop for KilledAtTheEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program in the background, which does not outlive a test that fails.
pub struct Background(KilledAtTheEnd);

impl Background {
    pub fn start(mut command: Command) -> Background {
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        Background(KilledAtTheEnd(child))
    }

    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0.0), signal).expect("it is ours, and not waited for");
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.0.try_wait().expect("it is ours").is_some()
    }

    /// Waits for its end; returns the exit code, absent after a signal, and what it said on stderr.
    pub fn wait(&mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        let stderr = self.0.0.stderr.as_mut().expect("it was piped");
        stderr.read_to_string(&mut said).expect("it speaks UTF-8");
        (self.0.0.wait().expect("it is ours").code(), said)
    }
}
