//! The link between host and device, with its copies and their progress.

use std::time::{Duration, Instant};

use crate::script::CudaScript;

/// The direction, from the view of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// Executes copies one after the other, at the speed of the script.
#[derive(Debug, Default)]
pub(crate) struct Link {
    copies: Vec<Copy>,
    /// The end of all requested copies. Absent once a caller has seen it pass: the next copy begins at its
    /// request and not at this time. Until then the time between two requests does not count, so that the
    /// duration of copies does not depend on the load of the host.
    busy_until: Option<Instant>,
}

#[derive(Debug)]
struct Copy {
    way: Way,
    begin: Instant,
    end: Instant,
    /// Includes packet headers.
    bytes: f64,
}

impl Link {
    /// Appends a copy of this number of bytes.
    pub(crate) fn copy(&mut self, script: &CudaScript, way: Way, bytes: usize) {
        let speed = match way {
            Way::In => script.host_to_device_bytes_per_s,
            Way::Out => script.device_to_host_bytes_per_s,
        };
        let begin = self.mark();
        let end = begin + Duration::from_secs_f64(bytes as f64 / speed as f64);
        self.copies.push(Copy { way, begin, end, bytes: bytes as f64 * (1.0 + script.header_share) });
        self.busy_until = Some(end);
    }

    /// The end of all copies requested until now.
    pub(crate) fn mark(&mut self) -> Instant {
        *self.busy_until.get_or_insert_with(Instant::now)
    }

    /// Whether this moment has passed for a host that waits for it.
    pub(crate) fn has_passed(&mut self, moment: Instant) -> bool {
        let now = Instant::now();
        if self.busy_until.is_some_and(|busy| busy <= now) {
            self.busy_until = None;
        }
        moment <= now
    }

    /// Bytes that had been copied in this direction at a moment.
    pub(crate) fn carried(&self, way: Way, moment: Instant) -> f64 {
        let of_copy = |copy: &Copy| {
            let gone = moment.saturating_duration_since(copy.begin).as_secs_f64();
            let whole = (copy.end - copy.begin).as_secs_f64();
            copy.bytes * (gone / whole).min(1.0)
        };
        self.copies.iter().filter(|copy| copy.way == way).map(of_copy).sum()
    }
}
