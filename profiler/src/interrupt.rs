//! Ctrl-C: the first asks for an orderly end, a later one leaves at once.

use std::{
    io, process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::cmd::Exit;

/// Programs that pass a signal on to a process and to its group send it twice at once; a person who
/// means it twice takes longer.
const ONE_AND_THE_SAME: Duration = Duration::from_secs(1);

/// Whether the user wants to stop. One that does not listen is asked by whoever holds it.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for SIGINT and SIGTERM from now on.
    pub fn listen() -> io::Result<Interrupt> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let interrupt = Interrupt::default();
        let listening = interrupt.clone();
        thread::Builder::new().name("signals".into()).spawn(move || {
            let mut first = None;
            for _ in signals.forever() {
                listening.ask();
                if first.get_or_insert_with(Instant::now).elapsed() > ONE_AND_THE_SAME {
                    process::exit(Exit::Interrupted as i32);
                }
            }
        })?;
        Ok(interrupt)
    }

    /// Asks for an orderly end, as the first signal does.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
