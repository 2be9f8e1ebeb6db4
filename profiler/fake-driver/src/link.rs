//! The link between host and device: what is copied over it, and how much of it has gone by now.

use std::time::{Duration, Instant};

use crate::script::CudaScript;

/// Which way, as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// Works copies off one after the other, at the speed of the script.
#[derive(Debug, Default)]
pub(crate) struct Link {
    copies: Vec<Copy>,
    /// When all that was asked for is done. Absent once someone has seen that it is: what is asked for
    /// next begins then, and not at the end of this. Until then time between two requests does not
    /// count, so that what copies take does not depend on how busy the host is.
    busy_until: Option<Instant>,
}

#[derive(Debug)]
struct Copy {
    way: Way,
    begin: Instant,
    end: Instant,
    /// Headers of packets included.
    bytes: f64,
}

impl Link {
    /// Appends a copy of so many bytes.
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

    /// When all that was asked for until now is done.
    pub(crate) fn mark(&mut self) -> Instant {
        *self.busy_until.get_or_insert_with(Instant::now)
    }

    /// Whether the host may go on that waits for this moment.
    pub(crate) fn has_passed(&mut self, moment: Instant) -> bool {
        let now = Instant::now();
        if self.busy_until.is_some_and(|busy| busy <= now) {
            self.busy_until = None;
        }
        moment <= now
    }

    /// Bytes that had gone this way at a moment.
    pub(crate) fn carried(&self, way: Way, moment: Instant) -> f64 {
        let of_copy = |copy: &Copy| {
            let gone = moment.saturating_duration_since(copy.begin).as_secs_f64();
            let whole = (copy.end - copy.begin).as_secs_f64();
            copy.bytes * (gone / whole).min(1.0)
        };
        self.copies.iter().filter(|copy| copy.way == way).map(of_copy).sum()
    }
}
