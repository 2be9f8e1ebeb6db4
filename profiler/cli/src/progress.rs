//! Bars and spinners that go on by themselves while a program works, and are hidden with `--quiet`.

use std::{thread, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget};
use rig::output;

/// The time from one picture of a bar to the next.
const PAUSE: Duration = Duration::from_millis(500);

/// Where bars are drawn.
pub fn target() -> ProgressDrawTarget {
    if output::is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

/// Redraws a bar from time to time, if it is shown on a terminal. Where the system starts no further thread, the bar is drawn when it
/// changes.
pub fn tick(bar: &ProgressBar) {
    // indicatif takes for granted that its thread can be started.
    let starts_threads = || thread::Builder::new().spawn(|| {}).is_ok();
    if !bar.is_hidden() && starts_threads() {
        bar.enable_steady_tick(PAUSE);
    }
}
