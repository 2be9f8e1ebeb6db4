//! Waiting in tests. A test polls for the event that it needs. It never sleeps for the time that the event should take, because a busy
//! machine may take longer. `scripts/check` refuses a sleep anywhere else in a test.

use std::{
    fmt::Debug,
    thread::sleep,
    time::{Duration, Instant},
};

/// The time-out of every wait. Even on a machine whose cores are all busy, only a hanging program exceeds it.
pub const LONG: Duration = Duration::from_secs(120);

/// Polls `look` until it returns `Ok`, and returns the value. An `Err` holds the current state, for the panic message.
///
/// # Panics
/// `look` still returns `Err` after [`LONG`]. The message has the last `Err`.
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

/// Polls until a condition holds.
///
/// # Panics
/// The condition does not hold after [`LONG`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || if holds() { Ok(()) } else { Err("it does not hold") });
}

/// Sleeps in a test whose subject is time itself: nothing may happen during the sleep, or a clock must advance. `why` tells the reader
/// which. A test that needs an event uses [`wait_for`].
pub fn let_pass(time: Duration, why: &str) {
    assert!(!why.is_empty(), "a reason is given");
    sleep(time);
}
