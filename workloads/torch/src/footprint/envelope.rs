//! The maximum of many straight lines.

use std::cmp::Ordering;

use schema::footprint::Envelope;

/// The lines of `lines` that are the highest at some micro-batch, ascending by slope. Lines are given by
/// their heights at a small micro-batch and at twice that.
///
/// It begins with the highest line at 0 samples, and continues with the line that overtakes it first.
pub(super) fn envelope(lines: &[[u64; 2]]) -> Envelope {
    let lines: Vec<Line> = lines.iter().copied().map(Line::through).collect();
    let mut highest = Vec::new();
    let mut next = lines.iter().max_by_key(|line| (line.start, line.slope));
    while let Some(line) = next {
        highest.push(line.heights);
        let steeper = lines.iter().filter(|other| other.slope > line.slope);
        next = steeper.min_by(|a, b| line.overtaken_first_by(a, b));
    }
    highest
}

/// A height of `start + slope * x` at `x` times the small micro-batch.
struct Line {
    heights: [u64; 2],
    start: i128,
    slope: i128,
}

impl Line {
    fn through(heights: [u64; 2]) -> Self {
        let [small, large] = heights.map(i128::from);
        Self { heights, start: 2 * small - large, slope: large - small }
    }

    /// Which of two steeper lines reaches this one first; if both do at once, the steeper one.
    fn overtaken_first_by(&self, a: &Line, b: &Line) -> Ordering {
        // Each reaches it at a lead over a difference of slopes, which is positive.
        let [lead_a, lead_b] = [a, b].map(|other| self.start - other.start);
        let [gain_a, gain_b] = [a, b].map(|other| other.slope - self.slope);
        (lead_a * gain_b).cmp(&(lead_b * gain_a)).then(b.slope.cmp(&a.slope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The height of a line at a multiple of the small micro-batch.
    fn height([small, large]: [u64; 2], times: i64) -> i64 {
        let (small, large) = (small as i64, large as i64);
        small + (large - small) * (times - 1)
    }

    #[test]
    fn the_highest_line_wins_wherever_it_is_one() {
        // The second is highest at first, the first from 6 on; the third lies below both, the fourth is as steep as the first.
        assert_eq!(envelope(&[[10, 20], [50, 52], [9, 12], [9, 19]]), [[50, 52], [10, 20]]);
        assert_eq!(envelope(&[[7, 7], [7, 7]]), [[7, 7]]);
        assert_eq!(envelope(&[[9, 8], [3, 3]]), [[9, 8], [3, 3]], "a peak may fall as the batch grows");
        // Three lines through one point, of which the flattest and the steepest are enough.
        assert_eq!(envelope(&[[4, 6], [4, 5], [4, 8]]), [[4, 5], [4, 8]]);
        assert_eq!(envelope(&[]), Envelope::new());
    }

    #[test]
    fn nothing_that_was_left_out_is_ever_higher() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let lines: Vec<[u64; 2]> = (0..40).map(|_| [rng.u64(..1000), rng.u64(..2000)]).collect();
            let kept = envelope(&lines);
            for times in 0..50 {
                let highest = |lines: &[[u64; 2]]| lines.iter().map(|line| height(*line, times)).max();
                assert_eq!(highest(&kept), highest(&lines), "at {times}");
            }
        }
    }
}
