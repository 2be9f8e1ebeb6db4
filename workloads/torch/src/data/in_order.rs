//! Streams of numbered samples in order, whose position is a number.

use tch::Tensor;

use crate::workload::{Batch, DataStream, Share};

/// Samples numbered from 0, without end. A sample depends on its number only.
pub(super) trait Numbered {
    /// Reads `samples` samples of one rank, from its [`Place::first`] on.
    fn batch(&mut self, place: Place, samples: usize) -> anyhow::Result<Batch>;

    /// The tensors that it keeps on the device.
    fn tensors(&self) -> Vec<&Tensor>;
}

/// The position in a stream, and the rank that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) share: Share,
    /// Number of samples that all ranks have taken.
    pub(super) taken: u64,
}

impl Place {
    /// The beginning, for a single rank.
    pub(super) const START: Place = Place { share: Share::ALL, taken: 0 };

    /// The number of the first of this rank's next `samples` samples.
    pub(super) fn first(self, samples: usize) -> u64 {
        self.taken + self.share.before(samples as u64)
    }

    /// The position after the next batch, of which each rank takes `samples`.
    pub(super) fn after(self, samples: usize) -> Place {
        Place { taken: self.taken + self.share.all(samples as u64), ..self }
    }
}

/// The stream of numbered samples, each once, in order.
pub(super) struct InOrder<N> {
    samples: N,
    place: Place,
}

impl<N: Numbered> InOrder<N> {
    pub(super) fn new(samples: N) -> Self {
        Self { samples, place: Place::START }
    }
}

impl<N: Numbered> DataStream for InOrder<N> {
    fn next(&mut self, samples: usize) -> anyhow::Result<Batch> {
        let batch = self.samples.batch(self.place, samples)?;
        self.place = self.place.after(samples);
        Ok(batch)
    }

    fn share_out(&mut self, share: Share) -> anyhow::Result<()> {
        self.place.share = share;
        Ok(())
    }

    fn position(&self) -> Option<u64> {
        Some(self.place.taken)
    }

    fn seek(&mut self, position: u64) -> anyhow::Result<()> {
        self.place.taken = position;
        Ok(())
    }

    fn tensors(&self) -> Vec<&Tensor> {
        self.samples.tensors()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples that are their own numbers.
    struct Numbers;

    impl Numbered for Numbers {
        fn batch(&mut self, place: Place, samples: usize) -> anyhow::Result<Batch> {
            anyhow::ensure!(samples > 0, "there is no batch of none");
            let first = place.first(samples) as i64;
            let inputs = Tensor::f_arange_start(first, first + samples as i64, tch::kind::INT64_CPU)?;
            Ok(Batch { targets: inputs.shallow_clone(), inputs })
        }

        fn tensors(&self) -> Vec<&Tensor> {
            Vec::new()
        }
    }

    fn numbers(stream: &mut InOrder<Numbers>, samples: usize) -> Vec<i64> {
        Vec::try_from(&stream.next(samples).unwrap().inputs).unwrap()
    }

    fn stream(share: Share) -> InOrder<Numbers> {
        let mut stream = InOrder::new(Numbers);
        stream.share_out(share).unwrap();
        stream
    }

    #[test]
    fn ranks_share_a_batch_out_and_go_on_from_any_position_in_any_number() {
        let mut whole = stream(Share::ALL);
        let mut ranks = [0, 1, 2].map(|rank| stream(Share { rank, ranks: 3 }));
        for samples in [2, 2, 5] {
            let together: Vec<_> = ranks.iter_mut().flat_map(|stream| numbers(stream, samples)).collect();
            assert_eq!(together, numbers(&mut whole, 3 * samples));
        }
        assert_eq!((whole.position(), ranks[2].position()), (Some(27), Some(27)));
        ranks[1].seek(6).unwrap();
        assert_eq!(numbers(&mut ranks[1], 2), [8, 9]);
        let mut alone = stream(Share::ALL);
        alone.seek(27).unwrap();
        assert_eq!(numbers(&mut alone, 3), numbers(&mut whole, 3));
    }

    #[test]
    fn a_batch_that_could_not_be_made_was_not_taken() {
        let mut stream = stream(Share::ALL);
        numbers(&mut stream, 4);
        assert!(stream.next(0).is_err());
        assert_eq!(stream.position(), Some(4));
    }
}
