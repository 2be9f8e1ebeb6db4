//! The slowdowns of jobs that share a device whose time is divided fairly and at no cost.

use schema::sharing::{Quantum, Sharing};

use super::Alone;

/// Rounds of the fixed point. It converges geometrically, and 100 rounds leave less than the error of any measurement.
const ROUNDS: usize = 100;

/// The slowdown of the first of some jobs. `None` for modes in which members have weights, or whose slowdowns say
/// nothing, and for jobs of which what it needs was not measured.
///
/// Jobs that take turns of equal times are each slowed down by their number, and those that take turns of steps by the sum of the times
/// of their steps. Jobs that run at once are slowed down by [`processor_sharing`].
pub(super) fn slowdown(sharing: &Sharing, jobs: &[&Alone]) -> Option<f64> {
    let [first, ..] = jobs else { return None };
    if sharing.seats().is_some() {
        return None;
    }
    match sharing {
        Sharing::StepGate { quantum: Quantum::Time(_), .. } => Some(jobs.len() as f64),
        Sharing::StepGate { quantum: Quantum::Steps(_), .. } => {
            Some(jobs.iter().map(|job| job.step_s).sum::<Option<f64>>()? / first.step_s?)
        }
        Sharing::TimeSlice { .. } => {
            let busy = jobs.iter().map(|job| job.busy).collect::<Option<Vec<f64>>>()?;
            processor_sharing(&busy).first().copied()
        }
        Sharing::Alone | Sharing::Mps { .. } | Sharing::CpuShares { .. } | Sharing::Sequential => None,
    }
}

/// Whether jobs that share devices in this mode have a fair share, if enough is known of each.
pub(super) fn is_defined(sharing: &Sharing) -> bool {
    let alone = Alone { busy: Some(1.0), step_s: Some(1.0), ..Alone::default() };
    slowdown(sharing, &[&alone, &alone]).is_some()
}

/// The slowdowns of jobs that are busy for these shares of the time alone, on a device that all ready jobs share equally.
///
/// A job waits as long for other things as alone. The part `u` of its step that uses the device takes `1 / r` times as long, where `r` is
/// the mean of `1 / (1 + k)` over the numbers `k` of other jobs that are ready. So `s = 1 - u + u / r`, and a job is ready for the share
/// `u / r / s` of the time. Jobs are taken to be ready independently of each other.
fn processor_sharing(busy: &[f64]) -> Vec<f64> {
    let busy: Vec<f64> = busy.iter().map(|share| share.clamp(0.0, 1.0)).collect();
    let mut ready = busy.clone();
    let mut slowdowns = vec![1.0; busy.len()];
    for _ in 0..ROUNDS {
        let mut next = ready.clone();
        for (job, share) in busy.iter().enumerate() {
            let others = ready.iter().enumerate().filter(|(other, _)| *other != job).map(|(_, ready)| *ready);
            let rate = rate_beside(others);
            slowdowns[job] = 1.0 - share + share / rate;
            next[job] = share / rate / slowdowns[job];
        }
        ready = next;
    }
    slowdowns
}

/// The mean of `1 / (1 + k)`, where `k` of the others are ready, each with its probability.
fn rate_beside(ready: impl Iterator<Item = f64>) -> f64 {
    let mut chances = vec![1.0];
    for ready in ready {
        let mut next = vec![0.0; chances.len() + 1];
        for (count, chance) in chances.iter().enumerate() {
            next[count] += chance * (1.0 - ready);
            next[count + 1] += chance * ready;
        }
        chances = next;
    }
    chances.iter().enumerate().map(|(count, chance)| chance / (1 + count) as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_jobs_share_the_device_equally_and_idle_ones_bear_nothing() {
        for (busy, expected) in [
            (&[1.0][..], &[1.0][..]),
            (&[1.0, 1.0], &[2.0, 2.0]),
            (&[1.0, 1.0, 1.0], &[3.0, 3.0, 3.0]),
            (&[0.0, 1.0], &[1.0, 1.0]),
            // The light job takes 1.4 times as long, and is ready for 0.8 / 1.4 of the time, in half of which the other runs.
            (&[1.0, 0.4], &[1.4, 1.4]),
        ] {
            for (found, expected) in processor_sharing(busy).iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "{busy:?}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn turns_are_of_equal_times_or_of_steps() {
        let alone = |step_s| Alone { busy: Some(0.1), step_s: Some(step_s), ..Alone::default() };
        let (a, b, c) = (alone(0.1), alone(0.3), alone(0.6));
        for (sharing, jobs, expected) in [
            ("step-gate:250ms", &[&a, &b][..], Some(2.0)),
            ("step-gate", &[&a, &b, &c], Some(3.0)),
            ("step-gate:8", &[&b, &a, &c], Some(1.0 / 0.3)),
            ("step-gate:8:2/1", &[&a, &b], None),
            ("cpu-shares:2/1", &[&a, &b], None),
            ("sequential", &[&a, &b], None),
        ] {
            let found = slowdown(&sharing.parse().expect("it is a mode"), jobs);
            let is_right = found.zip(expected).map_or(found == expected, |(a, b)| (a - b).abs() < 1e-9);
            assert!(is_right, "{sharing}: {found:?}");
        }
    }
}
