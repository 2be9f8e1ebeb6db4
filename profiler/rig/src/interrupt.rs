//! Ctrl-C, and a closed terminal. Before a run exists, a signal ends the program at once with a message. During a run, the
//! first signal requests an orderly end, and a second one ends the program at once.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use tempfile::TempDir;

use crate::{exit::Exit, output};

/// The time within which a second signal is ignored. Programs that forward a signal to a process and to its group send it twice
/// at once; a person takes longer.
const ONE_AND_THE_SAME: Duration = Duration::from_secs(1);
/// The number of attempts to remove a folder. A process that was ended together with this one may still create a file in it.
const ATTEMPTS: usize = 20;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// Whether the user wants to stop. Without signal handlers it is set by [`Interrupt::ask`].
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// The interrupt of this process, once it listens.
static OURS: OnceLock<Interrupt> = OnceLock::new();

/// The effect of a signal while there is no run.
static EARLY: Mutex<Early> = Mutex::new(Early { is_over: false, temporary: Vec::new() });

struct Early {
    is_over: bool,
    /// Folders that are removed when the program ends.
    temporary: Vec<PathBuf>,
}

impl Interrupt {
    /// Listens for SIGINT, SIGTERM and SIGHUP, which request an orderly end from now on.
    pub fn listen() -> io::Result<Interrupt> {
        let interrupt = listen_early()?;
        // If a signal has come before, this waits for ever, and the signal ends the program meanwhile.
        early(|early| early.is_over = true);
        Ok(interrupt.clone())
    }

    /// Requests an orderly end, as the first signal does.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Listens for SIGINT, SIGTERM and SIGHUP, which end the program at once until [`Interrupt::listen`] is called. SIGHUP does not
/// end a program that ignores it, for example one started by `nohup`.
pub fn listen_early() -> io::Result<&'static Interrupt> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(ours) = OURS.get() {
        return Ok(ours);
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if !ignores(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let interrupt = Interrupt::default();
    let listening = interrupt.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut first = None;
        for signal in signals.forever() {
            if signal == SIGHUP {
                output::terminal_was_closed();
            }
            early(leave_early);
            listening.ask();
            if first.get_or_insert_with(Instant::now).elapsed() > ONE_AND_THE_SAME {
                process::exit(Exit::Interrupted.code().into());
            }
        }
    })?;
    Ok(OURS.get_or_init(|| interrupt))
}

/// Whether this process was started with a signal ignored.
fn ignores(signal: i32) -> bool {
    let status = procfs::process::Process::myself().and_then(|own| own.status());
    status.is_ok_and(|status| status.sigign & (1 << (signal - 1)) != 0)
}

/// A folder for files outside a run. It is removed when dropped, and also when a signal ends the program.
///
/// # Errors
/// There is no place for temporary files.
pub fn temporary_folder() -> io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    early(|early| {
        early.temporary.retain(|path| path.exists());
        early.temporary.push(folder.path().to_path_buf());
    });
    Ok(folder)
}

fn early(with: impl FnOnce(&mut Early)) {
    with(&mut EARLY.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Ends the program and everything it started, unless a run exists.
fn leave_early(early: &mut Early) {
    if early.is_over {
        return;
    }
    early.temporary.iter().for_each(|folder| remove(folder));
    output::note("interrupted; no job was started");
    process::exit(Exit::Interrupted.code().into());
}

fn remove(folder: &Path) {
    for _ in 0..ATTEMPTS {
        if fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            return;
        }
        thread::sleep(BETWEEN_ATTEMPTS);
    }
}
