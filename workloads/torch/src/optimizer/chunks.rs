//! Cuts the parameters of an update into chunks that go down, are stepped and go up one after another.

/// A part of a parameter, in the order of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Which parameter, of those of the update.
    pub(super) parameter: usize,
    /// Its first number.
    pub(super) first: i64,
    /// How many.
    pub(super) count: i64,
}

/// Parameters are cut at multiples of so many numbers, a cache line of them or more. The fused kernels take numbers by the
/// line and the rest of a parameter one by one, which may round otherwise: so a parameter that is cut moves bit for bit as
/// a whole one does.
const LINE: i64 = 16;

/// All numbers of parameters that have so many each, in order, in chunks of at most `chunk` numbers.
///
/// A chunk that has no room for a line of the next parameter stays that much smaller. `chunk` is a line or more.
pub(super) fn cut(numbers: &[i64], chunk: i64) -> Vec<Vec<Piece>> {
    assert!(chunk >= LINE, "a chunk has room for a line");
    let mut chunks = Vec::new();
    let (mut pieces, mut room) = (Vec::new(), chunk);
    for (parameter, &numbers) in numbers.iter().enumerate() {
        let mut first = 0;
        while first < numbers {
            let left = numbers - first;
            let count = if left <= room { left } else { room / LINE * LINE };
            if count > 0 {
                pieces.push(Piece { parameter, first, count });
            }
            first += count;
            room -= count;
            if first < numbers {
                chunks.push(std::mem::take(&mut pieces));
                room = chunk;
            }
        }
    }
    if !pieces.is_empty() {
        chunks.push(pieces);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_into(numbers: &[i64], chunk: i64) -> Vec<Vec<(usize, i64, i64)>> {
        let plain = |piece: &Piece| (piece.parameter, piece.first, piece.count);
        cut(numbers, chunk).iter().map(|pieces| pieces.iter().map(plain).collect()).collect()
    }

    #[test]
    fn chunks_are_filled_in_order_and_parameters_cut_between_lines() {
        for (numbers, chunk, expected) in [
            (&[][..], 16, vec![]),
            (&[1], 16, vec![vec![(0, 0, 1)]]),
            (&[16], 16, vec![vec![(0, 0, 16)]]),
            (&[17], 16, vec![vec![(0, 0, 16)], vec![(0, 16, 1)]]),
            (&[8, 8, 1], 16, vec![vec![(0, 0, 8), (1, 0, 8)], vec![(2, 0, 1)]]),
            (&[3, 40], 32, vec![vec![(0, 0, 3), (1, 0, 16)], vec![(1, 16, 24)]]),
            // There is room for ten numbers, which is less than a line.
            (&[22, 40, 5], 32, vec![vec![(0, 0, 22)], vec![(1, 0, 32)], vec![(1, 32, 8), (2, 0, 5)]]),
        ] {
            assert_eq!(cut_into(numbers, chunk), expected, "{numbers:?} by {chunk}");
        }
    }

    #[test]
    fn every_number_is_in_one_piece_and_no_chunk_is_too_large_or_empty() {
        let numbers: Vec<i64> = (0..60).map(|index| (index * index * 37) % 501).collect();
        for chunk in [16, 31, 64, 100, 1000, 100_000] {
            let chunks = cut(&numbers, chunk);
            let sizes = chunks.iter().map(|pieces| pieces.iter().map(|piece| piece.count).sum::<i64>());
            assert!(sizes.into_iter().all(|size| (1..=chunk).contains(&size)));
            let mut seen = vec![0; numbers.len()];
            for piece in chunks.iter().flatten() {
                assert_eq!(piece.first, seen[piece.parameter], "pieces follow one another");
                assert_eq!(piece.first % LINE, 0);
                seen[piece.parameter] += piece.count;
            }
            assert_eq!(seen, numbers);
        }
    }
}
