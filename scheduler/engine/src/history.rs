//! What a policy may learn from the jobs of an earlier run.

use std::time::UNIX_EPOCH;

use formats::history::PastJob;
use model::duration::{Arrival, PastArrival, TimeOfWeek};

/// What is known of a past job at its arrival, and how long it ran.
pub fn arrival(past: &PastJob) -> PastArrival<'_> {
    let at = past.submit_utc.as_deref().and_then(|text| humantime::parse_rfc3339(text).ok());
    let submit_s = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs());
    let job = Arrival {
        name: past.recurring_job.as_deref().unwrap_or(&past.name),
        user: &past.user,
        virtual_cluster: &past.vc,
        workload: &past.workload,
        plan: past.plan,
        devices: past.devices,
        time: submit_s.map(TimeOfWeek::of_unix_time),
    };
    PastArrival { job, submit_s, duration_s: past.duration_ns.as_secs_f64() }
}
