//! A server of runs, and its clients.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::Stdio,
};

use front_door::{Door, KilledAtTheEnd, get};
use rustix::process::{Pid, Signal, kill_process};

/// `report serve`, and the address that it has printed.
pub(crate) struct Served {
    server: KilledAtTheEnd,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(door: &Door, run: &Path) -> Served {
        let mut command = door.command("serve");
        let server = command.arg(run).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut server = KilledAtTheEnd(server);
        let mut line = String::new();
        let out = server.0.stdout.take().expect("it is a pipe");
        BufReader::new(out).read_line(&mut line).expect("it says its address");
        let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Served { server, address }
    }

    pub(crate) fn get(&self, target: &str) -> String {
        get(&self.address, target).expect("it answers")
    }

    /// Ends the server as Ctrl-C does, and returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.server.0), Signal::INT).expect("it is there");
        self.server.0.wait().expect("it ends").code()
    }
}
