//! Ranks as threads that compute sums, one of which a test can observe.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use schema::units::Nanos;
use tch::{TchError, Tensor};

use super::{Ranks, Sum};

/// One of several ranks, which are threads of this process. The last one to enter a sum computes it for
/// all.
#[derive(Clone)]
pub(crate) struct Thread {
    rank: usize,
    /// Number of sums that this rank has begun.
    begun: Arc<AtomicUsize>,
    meeting: Arc<Meeting>,
}

struct Meeting {
    ranks: usize,
    sums: Mutex<Vec<Made>>,
    made: Condvar,
}

#[derive(Default)]
struct Made {
    /// The arrived parts, by rank.
    parts: Vec<Option<Tensor>>,
    end: Option<Nanos>,
}

impl Thread {
    /// All ranks of a group, each for a thread of its own.
    pub(crate) fn group(ranks: usize) -> Vec<Self> {
        let meeting = Arc::new(Meeting { ranks, sums: Mutex::default(), made: Condvar::new() });
        let member = |rank| Self { rank, begun: Arc::default(), meeting: Arc::clone(&meeting) };
        (0..ranks).map(member).collect()
    }
}

impl Ranks for Thread {
    fn size(&self) -> u32 {
        self.meeting.ranks as u32
    }

    fn begin_sum(&self, flat: &Tensor) -> Result<Box<dyn Sum>, TchError> {
        let index = self.begun.fetch_add(1, Ordering::Relaxed);
        let mut sums = self.meeting.sums.lock().unwrap();
        if sums.len() <= index {
            sums.push(Made::default());
        }
        let made = &mut sums[index];
        made.parts.resize_with(self.meeting.ranks, || None);
        made.parts[self.rank] = Some(flat.shallow_clone());
        if made.parts.iter().all(Option::is_some) {
            // Parts are added in the order of the ranks, so that the sum is the same in every run.
            let mut parts: Vec<_> = made.parts.iter_mut().flatten().collect();
            let total = Tensor::f_stack(&parts, 0)?.f_sum_dim_intlist(0, false, None)?;
            parts.iter_mut().for_each(|part| part.copy_(&total));
            made.end = Some(Nanos::monotonic_now());
            self.meeting.made.notify_all();
        }
        Ok(Box::new(Awaited { index, meeting: Arc::clone(&self.meeting) }))
    }
}

struct Awaited {
    index: usize,
    meeting: Arc<Meeting>,
}

impl Sum for Awaited {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        let sums = self.meeting.sums.lock().unwrap();
        let (sums, _) = self
            .meeting
            .made
            .wait_timeout_while(sums, Duration::from_secs(60), |sums| sums[self.index].end.is_none())
            .unwrap();
        let end = sums[self.index].end;
        end.map(Some).ok_or_else(|| TchError::Torch("a rank did not come".into()))
    }
}

/// A single rank of a group, with an action of the test at each begin of a sum.
#[derive(Clone)]
pub(crate) struct Alone {
    on_begin: Arc<OnBegin>,
}

/// Receives the tensor to sum; returns the time of the sum, or its error.
type OnBegin = dyn Fn(&Tensor) -> Result<SumMade, TchError> + Send + Sync;
/// The result of waiting for a sum.
pub(crate) type SumMade = Result<Option<Nanos>, TchError>;

impl Alone {
    pub(crate) fn new(
        on_begin: impl Fn(&Tensor) -> Result<SumMade, TchError> + Send + Sync + 'static,
    ) -> Self {
        Self { on_begin: Arc::new(on_begin) }
    }
}

impl Ranks for Alone {
    fn size(&self) -> u32 {
        1
    }

    fn begin_sum(&self, flat: &Tensor) -> Result<Box<dyn Sum>, TchError> {
        Ok(Box::new((self.on_begin)(flat)?))
    }
}

impl Sum for SumMade {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        *self
    }
}
