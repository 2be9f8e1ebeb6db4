use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// A program in the background, which does not outlive a test that fails.
pub struct Background(Child);

impl Background {
    pub fn start(mut command: Command) -> Background {
        Background(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts"))
    }

    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it is ours, and not waited for");
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is ours").is_some()
    }

    /// Waits for its end; returns the exit code, absent after a signal, and what it said on stderr.
    pub fn wait(&mut self) -> (Option<i32>, String) {
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
