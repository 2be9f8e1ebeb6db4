//! The order in which an endless stream shows a fixed set of samples, and random numbers for each of them.

use std::sync::{Arc, Mutex, PoisonError};

use fastrand::Rng;

/// Shows every sample once per epoch, in an order that each epoch shuffles again.
pub(super) struct Epochs {
    samples: u32,
    seed: u64,
    /// Two orders, because loaders may be on both sides of the end of an epoch.
    orders: Mutex<[Option<Order>; 2]>,
}

struct Order {
    epoch: u64,
    samples: Arc<[u32]>,
}

impl Epochs {
    /// `samples` must not be 0.
    pub(super) fn new(samples: u32, seed: u64) -> Self {
        assert!(samples > 0, "an epoch has at least one sample");
        Self { samples, seed, orders: Mutex::default() }
    }

    /// The sample at position `number` of the stream.
    pub(super) fn sample(&self, number: u64) -> usize {
        let samples = u64::from(self.samples);
        let order = self.order(number / samples);
        order[(number % samples) as usize] as usize
    }

    fn order(&self, epoch: u64) -> Arc<[u32]> {
        // A loader that panicked cannot have left a wrong order, because the entry is replaced as a whole.
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = &mut orders[(epoch % 2) as usize];
        match entry {
            Some(order) if order.epoch == epoch => Arc::clone(&order.samples),
            _ => {
                let mut samples: Vec<u32> = (0..self.samples).collect();
                rng_at(self.seed, epoch).shuffle(&mut samples);
                Arc::clone(&entry.insert(Order { epoch, samples: samples.into() }).samples)
            }
        }
    }
}

/// The generator for item `number` under `seed`, for an epoch or for a sample of the stream.
pub(super) fn rng_at(seed: u64, number: u64) -> Rng {
    // Seeded twice, because the first numbers of generators with neighbouring seeds are similar.
    Rng::with_seed(Rng::with_seed(seed ^ number).u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_shows_every_sample_once_in_an_order_of_its_own() {
        let epochs = Epochs::new(100, 5);
        let epoch = |number: u64| -> Vec<usize> {
            (number * 100..(number + 1) * 100).map(|number| epochs.sample(number)).collect()
        };
        let (first, second, eighth) = (epoch(0), epoch(1), epoch(7));
        assert!(first != second && second != eighth);
        for mut order in [first.clone(), second, eighth] {
            order.sort_unstable();
            assert_eq!(order, (0..100).collect::<Vec<_>>());
        }
        assert_eq!(first, epoch(0), "an order that was given up is made again the same");
        assert_ne!(first[..10], (0..10).map(|number| Epochs::new(100, 6).sample(number)).collect::<Vec<_>>());
    }

    #[test]
    fn neighbouring_numbers_have_generators_that_do_not_resemble_each_other() {
        let mean = (0..10_000).map(|number| rng_at(3, number).f64()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let alike =
            (0..10_000).filter(|&n| (rng_at(3, n).f64() - rng_at(3, n + 1).f64()).abs() < 0.1).count();
        // Two independent numbers differ by less than 0.1 with probability 0.19.
        assert!((1_750..2_050).contains(&alike), "{alike}");
    }
}
