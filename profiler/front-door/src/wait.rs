//! Waiting in tests. A test waits for what it needs to see, and never for a time in which that should have happened: how long a
//! busy machine takes is unknown. `scripts/check` refuses sleeping anywhere else in a test.

use std::{
    fmt::Debug,
    thread::sleep,
    time::{Duration, Instant},
};

/// A time that only a hanging program takes, on a machine whose cores are all busy.
pub const LONG: Duration = Duration::from_secs(120);

/// Looks until `look` returns `Ok`, and returns what it found. `Err` has what was seen instead.
///
/// # Panics
/// After [`LONG`], with what was seen last.
pub fn wait_for<T, S: Debug>(what: &str, mut look: impl FnMut() -> Result<T, S>) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(began.elapsed() < LONG, "waited in vain until {what}; last seen: {seen:?}"),
        }
        sleep(Duration::from_millis(5));
    }
}

/// Looks until a condition holds.
///
/// # Panics
/// After [`LONG`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || if holds() { Ok(()) } else { Err("it does not hold") });
}

/// Lets time pass in which nothing must happen, or in which a clock must go on. `why` is for the reader: nothing else would
/// end this wait. A test that needs something to have happened afterwards waits for it with [`wait_for`].
pub fn let_pass(time: Duration, why: &str) {
    assert!(!why.is_empty(), "a reason is given");
    sleep(time);
}
