//! The warm-up of a job with too few steps to detect it.
//!
//! Kernels are selected, memory is allocated and files are read in the first steps of a job. In a launch of
//! many steps this shows in the step times, but with a few slow steps it cannot be decided which are cold.
//! Members of a group warm up by this rule before they share, and a launch alone leaves out the same steps,
//! so that a slowdown is a ratio of the same kind of steps.

/// The fewest steps of a warm-up.
pub const STEPS: usize = 3;

/// The shortest time of a warm-up, in ns.
pub const NS: u64 = 1_000_000_000;

/// Whether a job that has done `steps` steps in `ns` nanoseconds has warmed up.
pub fn is_over(steps: usize, ns: u64) -> bool {
    steps >= STEPS && ns >= NS
}

/// The number of first steps of a job that are its warm-up; `None` if it is not over yet.
pub fn steps(step_ns: &[u64]) -> Option<usize> {
    let mut spent_ns: u64 = 0;
    let is_last = |(index, &ns): (usize, &u64)| {
        spent_ns = spent_ns.saturating_add(ns);
        is_over(index + 1, spent_ns)
    };
    step_ns.iter().enumerate().position(is_last).map(|last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_is_three_steps_and_a_second() {
        let ms = 1_000_000;
        for (step_ns, expected) in [
            (&[][..], None),
            (&[2_000 * ms, 2_000 * ms], None),
            (&[9_000 * ms, 2_000 * ms, 2_000 * ms, 2_000 * ms], Some(3)),
            (&[300 * ms; 10], Some(4)),
            (&[100 * ms; 10], Some(10)),
            (&[100 * ms; 9], None),
            (&[u64::MAX; 3], Some(3)),
        ] {
            assert_eq!(steps(step_ns), expected, "{step_ns:?}");
        }
    }
}
