//! A part of a step, and which of its moments are which of the same part at a larger micro-batch.

use std::mem;

use crate::shim::memory_trace::Event;

/// A part of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Segment {
    /// Bytes that were allocated when it began.
    pub(super) before: u64,
    /// What happened in it. Each operation ends in the part that it begins in.
    pub(super) events: Vec<Event>,
}

impl Segment {
    /// What is held at each moment of this segment, and at the same moment of `large`, at the larger micro-batch.
    ///
    /// A step makes the same operations at every micro-batch, but within one a library may go another way for more samples.
    /// On a CPU a product of matrices in bf16 is oneDNN's from some thousands of multiplications on, and oneDNN takes memory
    /// of its own and gives it back. So moments are partners one by one where both segments take and give back in the same
    /// order; where they do not, operations are partners, and within each of them its moments or those that lie in it. Of
    /// segments that have not the same operations nothing is known but the two peaks.
    pub(super) fn lines(&self, large: &Segment) -> Vec<[u64; 2]> {
        self.partners(large).unwrap_or_else(|| vec![[self.peak(), large.peak()]])
    }

    /// Nothing where neither moments nor operations have partners.
    fn partners(&self, large: &Segment) -> Option<Vec<[u64; 2]>> {
        if self.is_like(large) {
            return Some(self.levels().zip(large.levels()).map(|(small, large)| [small, large]).collect());
        }
        let (small, large) = (self.parts(), large.parts());
        let of_parts = |(small, large): (&Segment, &Segment)| {
            small.partners(large).unwrap_or_else(|| small.two_ways(large).into())
        };
        (small.len() > 1 && small.len() == large.len())
            .then(|| small.iter().zip(&large).flat_map(of_parts).collect())
    }

    /// Of an operation that goes two ways: what it finds or leaves, whichever is more, and above that what it takes while it
    /// lasts. For more samples that is taken to be what it was for the larger micro-batch: libraries work through blocks of
    /// the numbers at hand, and hold memory for a block. For fewer it is at least what makes the peak of the smaller one.
    fn two_ways(&self, large: &Segment) -> [[u64; 2]; 2] {
        let around = [self, large].map(|segment| segment.before.max(segment.end()));
        let peaks = [self.peak(), large.peak()];
        let [own_small, own_large] = [0, 1].map(|index| peaks[index] - around[index]);
        [around.map(|bytes| bytes + own_large), [peaks[0], around[1] + own_small.min(own_large)]]
    }

    pub(super) fn end(&self) -> u64 {
        self.levels().last().unwrap_or(self.before)
    }

    fn peak(&self) -> u64 {
        self.levels().max().unwrap_or(self.before)
    }

    /// Bytes that were allocated when it began and after each change.
    fn levels(&self) -> impl Iterator<Item = u64> {
        let after = self.changes().scan(self.before, |level, bytes| {
            *level = level.saturating_add_signed(bytes);
            Some(*level)
        });
        std::iter::once(self.before).chain(after)
    }

    fn changes(&self) -> impl Iterator<Item = i64> {
        self.events.iter().filter_map(|event| match event {
            Event::Bytes(bytes) => Some(*bytes),
            Event::Begin | Event::End => None,
        })
    }

    /// Whether the other takes and gives back at the same moments, whatever the sizes.
    fn is_like(&self, other: &Segment) -> bool {
        self.changes().map(i64::signum).eq(other.changes().map(i64::signum))
    }

    /// Cuts it where the outermost operations begin and end: what lies before the first one, what lies in it, what lies
    /// between it and the second, and so on. Without an operation it is one part.
    fn parts(&self) -> Vec<Segment> {
        let mut parts = Vec::new();
        let mut part = Segment { before: self.before, events: Vec::new() };
        let mut depth = 0;
        for event in &self.events {
            let outside = depth == 0;
            depth += match event {
                Event::Bytes(_) => 0,
                Event::Begin => 1,
                Event::End => -1,
            };
            if outside == (depth == 0) {
                part.events.push(*event);
            } else {
                let next = Segment { before: part.end(), events: Vec::new() };
                parts.push(mem::replace(&mut part, next));
            }
        }
        parts.push(part);
        parts
    }

    /// One without operations.
    #[cfg(test)]
    pub(super) fn of_bytes(before: u64, bytes: &[i64]) -> Segment {
        Segment { before, events: bytes.iter().copied().map(Event::Bytes).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events in the order of their words: `+` or `-` and bytes, operations in parentheses.
    fn segment(words: &str) -> Segment {
        let event = |word: &str| match word {
            "(" => Event::Begin,
            ")" => Event::End,
            bytes => Event::Bytes(bytes.parse().expect("a number of bytes")),
        };
        Segment { before: 100, events: words.split_whitespace().map(event).collect() }
    }

    #[test]
    fn moments_are_partners_one_by_one_or_by_their_operations() {
        for (small, large, lines) in [
            // The same in the same order, whatever the sizes.
            ("+1 +2 -1", "+2 +4 -2", &[[100, 100], [101, 102], [103, 106], [102, 104]][..]),
            // Another order of no operation, or of a single one: the peaks.
            ("+7 -7 +2", "+9 +8", &[[107, 117]]),
            // The second operation goes another way, where 9 bytes are scratch; what lies around it does not.
            (
                "( +5 ) ( +3 ) -5",
                "( +10 ) ( +9 +6 -9 ) -10",
                &[
                    [100, 100],
                    [100, 100],
                    [105, 110],
                    [105, 110],
                    [117, 125],
                    [108, 116],
                    [108, 116],
                    [103, 106],
                ],
            ),
            // The way of fewer samples takes more.
            ("( +5 -5 )", "( +4 +1 -4 )", &[[100, 100], [104, 105], [105, 105], [100, 101]]),
            // Of two operations that lie in a third, one goes another way.
            (
                "( ( +1 ) ( +2 ) )",
                "( ( +1 +9 -9 ) ( +4 ) )",
                &[
                    [100, 100],
                    [100, 100],
                    [110, 110],
                    [101, 101],
                    [101, 101],
                    [101, 101],
                    [103, 105],
                    [103, 105],
                    [103, 105],
                ],
            ),
        ] {
            assert_eq!(segment(small).lines(&segment(large)), lines, "{small} | {large}");
        }
    }
}
