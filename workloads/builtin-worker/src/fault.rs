//! Faults on demand, each at its moment as in a broken worker.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{self, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process};
use schema::catalog::Fault;

/// The exit code of a crash on demand, which programs do not use by accident.
const CRASH_CODE: i32 = 3;

pub(crate) struct Faults {
    fault: Option<Fault>,
    rank: u32,
    /// The event file, for writes that bypass the protocol.
    events: PathBuf,
}

impl Faults {
    pub(crate) fn new(fault: Option<Fault>, rank: u32, events: PathBuf) -> Faults {
        Faults { fault, rank, events }
    }

    pub(crate) fn before_hello(&self) {
        if self.fault == Some(Fault::CrashBeforeHello) {
            eprintln!("synthetic: a crash before hello, as asked for");
            process::exit(CRASH_CODE);
        }
    }

    /// The protocol version to claim in `hello`.
    pub(crate) fn protocol(&self, spoken: u32) -> u32 {
        if self.fault == Some(Fault::WrongProtocol) { spoken + 1 } else { spoken }
    }

    pub(crate) fn before_ready(&self) {
        if self.fault == Some(Fault::NeverReady) {
            hang();
        }
    }

    /// Triggers the fault after `done` steps. The returned text is that of exhausted memory, which the
    /// worker itself reports.
    pub(crate) fn before_step(&self, done: u64) -> io::Result<Option<String>> {
        let Some(fault) = self.fault else { return Ok(None) };
        match fault {
            Fault::Hang { after_steps } if done == after_steps => hang(),
            Fault::OutOfMemory { after_steps } if done == after_steps => {
                return Ok(Some("out of memory, as asked for".into()));
            }
            Fault::GarbageLine { after_steps } if done == after_steps => {
                self.write_line("Epoch 1: loss 3.2")?;
            }
            Fault::LostLine { after_steps } if done == after_steps => {
                // A valid line with a sequence number far ahead.
                let rank = self.rank;
                self.write_line(&format!(
                    r#"{{"seq":1000000,"rank":{rank},"mono_ns":1,"event":{{"held":{{"index":{done}}}}}}}"#
                ))?;
            }
            Fault::ExitWithoutFinished { after_steps } if done == after_steps => process::exit(0),
            Fault::RankDies { rank, after_steps } if rank == self.rank && done == after_steps => {
                kill_process(getpid(), Signal::KILL)?;
            }
            Fault::LeaveChild { after_steps } if done == after_steps => leave_child()?,
            _ => {}
        }
        Ok(None)
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        let mut file = File::options().append(true).open(&self.events)?;
        file.write_all(format!("{line}\n").as_bytes())
    }
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Starts a process like an orphaned data loader: it has its own process group, ignores SIGTERM, holds no
/// pipe of the harness and outlives its parent.
fn leave_child() -> io::Result<()> {
    Command::new("/bin/sh")
        .args(["-c", "trap '' TERM; sleep 1000"])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(())
}
