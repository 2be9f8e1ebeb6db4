//! Slow steps among fast ones, as in a program that tests its model between some of its steps.
//!
//! The median is the time of a usual step then, and not the pace: in 20 steps of 10 ms and a test of 1 s, a step takes 60 ms on
//! average.

use crate::median;

/// A slow step takes more than this multiple of the median step.
const SLOW_FROM: f64 = 2.0;

/// The pace of some steps in comparison with their median, and the slow steps that make the difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// The mean step time.
    pub pace_ns: f64,
    pub median_ns: f64,
    /// The number of slow steps: above twice the median, and above the geometric mean of the median and the longest step.
    pub slow: usize,
    /// The share of the time in slow steps, from 0 to 1.
    pub slow_share: f64,
    /// The number of steps from one slow step to the next, if it is always the same.
    pub period: Option<usize>,
}

impl Bursts {
    /// `None` without steps, or if the clock does not resolve the median step.
    pub fn measure(step_ns: &[u64]) -> Option<Bursts> {
        let median_ns = median(step_ns).filter(|ns| *ns > 0.0)?;
        // Beside steps of a second, a step that had to wait for a core is not slow.
        let longest_ns = step_ns.iter().copied().max()? as f64;
        let slow_ns = (SLOW_FROM * median_ns).max((median_ns * longest_ns).sqrt());
        let is_slow = |ns: u64| ns as f64 > slow_ns;
        let sum = |steps: &mut dyn Iterator<Item = u64>| steps.map(|ns| ns as f64).sum::<f64>();
        let all_ns = sum(&mut step_ns.iter().copied());
        let in_slow_ns = sum(&mut step_ns.iter().copied().filter(|&ns| is_slow(ns)));
        let slow: Vec<usize> = (0..step_ns.len()).filter(|&index| is_slow(step_ns[index])).collect();
        Some(Bursts {
            pace_ns: all_ns / step_ns.len() as f64,
            median_ns,
            slow: slow.len(),
            slow_share: in_slow_ns / all_ns,
            period: period(&slow),
        })
    }

    /// The pace over the median step.
    pub fn ratio(&self) -> f64 {
        self.pace_ns / self.median_ns
    }
}

/// The distance of neighbours in a list of at least three, if it is always the same.
fn period(slow: &[usize]) -> Option<usize> {
    let mut gaps = slow.windows(2).map(|pair| pair[1] - pair[0]);
    let first = gaps.next().filter(|_| slow.len() >= 3)?;
    gaps.all(|gap| gap == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 steps of 10 ms, of which these are longer.
    fn steps(slow: &[(usize, u64)]) -> Vec<u64> {
        let mut steps = vec![10_000_000; 100];
        slow.iter().for_each(|&(index, ns)| steps[index] = ns);
        steps
    }

    #[test]
    fn slow_steps_are_counted_and_their_period_is_known_if_they_have_one() {
        let second = 1_000_000_000;
        let every_20 = [(19, second), (39, second), (59, second), (79, second), (99, second)];
        for (slow, pace_ms, slow_share, period) in [
            (&every_20[..], 59.5, 5_000.0 / 5_950.0, Some(20)),
            // Two steps that waited for a core.
            (
                &[(19, second), (30, 30_000_000), (39, second), (41, 25_000_000), (59, second)],
                40.05,
                3_000.0 / 4_005.0,
                Some(20),
            ),
            (&every_20[..2], 29.8, 2_000.0 / 2_980.0, None),
            (&[(19, second), (39, second), (60, second)], 39.7, 3_000.0 / 3_970.0, None),
            (&[(50, 20_000_000)], 10.1, 0.0, None),
            (&[(50, 21_000_000)], 10.11, 21.0 / 1_011.0, None),
            (&[], 10.0, 0.0, None),
        ] {
            let bursts = Bursts::measure(&steps(slow)).unwrap();
            assert_eq!(bursts.median_ns, 10e6);
            assert!((bursts.pace_ns / 1e6 - pace_ms).abs() < 1e-9, "{bursts:?}");
            assert!((bursts.ratio() - pace_ms / 10.0).abs() < 1e-9, "{bursts:?}");
            assert!((bursts.slow_share - slow_share).abs() < 1e-12, "{bursts:?}");
            assert_eq!(bursts.period, period, "{bursts:?}");
        }
        assert_eq!((Bursts::measure(&[]), Bursts::measure(&[0, 0, 5])), (None, None));
    }
}
