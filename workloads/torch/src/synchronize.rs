//! Gradients of the whole batch: each rank has those of its own samples, and all get the sum.
//!
//! Gradients lie in a few flat tensors, the buckets, so that a few large collectives move them and nothing is packed or
//! unpacked. Autograd tells when it has added to a gradient; when those of a bucket are complete its sum begins, while
//! the backward pass goes on with the layers before it (Li et al., "PyTorch Distributed", VLDB 2020).

mod buckets;
#[cfg(test)]
pub(crate) mod scripted;

use std::sync::{Arc, Mutex, MutexGuard};

use schema::units::Nanos;
use tch::{TchError, Tensor};

use self::buckets::{Bucket, Place, lay_out};
use crate::{
    group::{Group, Work},
    shim::autograd::{GradientHook, keep_gradient_in},
};

/// What gradients need of the group that a rank belongs to.
pub trait Ranks: Send {
    /// How many there are.
    fn size(&self) -> u32;

    /// Begins to sum `flat` over all ranks, in place; it must not be touched before that was waited for. All ranks begin
    /// the same sums in the same order.
    ///
    /// # Errors
    /// When the group cannot go on, as when another rank has gone.
    fn begin_sum(&self, flat: &Tensor) -> Result<Box<dyn Sum>, TchError>;
}

/// A sum over ranks that may be under way.
pub trait Sum: Send {
    /// Waits for the end, on a GPU in its stream. Gives the moment of the end, `None` where the backend does not tell.
    ///
    /// # Errors
    /// When another rank has gone, or does not come in time.
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError>;
}

impl Ranks for Group {
    fn size(&self) -> u32 {
        Group::size(self)
    }

    fn begin_sum(&self, flat: &Tensor) -> Result<Box<dyn Sum>, TchError> {
        Ok(Box::new(self.all_reduce_sum(flat)?))
    }
}

impl Sum for Work {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        Work::wait(&self)?;
        Ok(self.finished_at())
    }
}

/// What the gradients of one update took to become those of the whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synchronized {
    /// The time in which at least one sum was under way, hidden behind the backward pass or not; `None` where the
    /// backend does not tell.
    pub total: Option<Nanos>,
    /// What this rank has handed to collectives.
    pub sent_bytes: u64,
}

/// Sums the gradients of one update over all ranks.
///
/// In which order a backward pass completes gradients, and how often it adds to each, is for the first step to show: a
/// tied weight gets one addition for all its uses, and several where some of them are recomputed, each in a pass of its
/// own. So the sums of the first step begin when its backward pass has ended, and those of later ones while it goes on.
pub struct GradientSync {
    parameters: Vec<Tensor>,
    state: Arc<Mutex<State>>,
    /// Autograd forgets the state when these go.
    _hooks: Vec<GradientHook>,
}

impl GradientSync {
    /// Allocates the buckets. `parameters` are leaves of one kind on one device, in the same order on all ranks; `ranks` is
    /// asked from the thread of the backward pass.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(parameters: &[Tensor], ranks: Box<dyn Ranks>) -> Result<Self, TchError> {
        let state = Arc::new(Mutex::new(State::new(parameters, ranks)?));
        let hook = |(index, parameter)| {
            let state = Arc::clone(&state);
            GradientHook::new(parameter, move |parameter| lock(&state).added(index, parameter))
        };
        let hooks = parameters.iter().enumerate().map(hook).collect::<Result<_, _>>()?;
        let parameters = parameters.iter().map(Tensor::shallow_clone).collect();
        Ok(Self { parameters, state, _hooks: hooks })
    }

    /// To be called before each backward pass of the update. `is_last` says that gradients will be complete after it;
    /// otherwise they are added up and nothing is sent.
    pub fn before_backward(&mut self, is_last: bool) {
        lock(&self.state).in_last_pass = is_last;
    }

    /// To be called after the last backward pass of the update: begins what could not begin earlier, and waits for all.
    /// Then every rank has the same gradients, up to the next call of
    /// [`clear_gradients`](crate::shim::autograd::clear_gradients).
    ///
    /// # Errors
    /// When another rank has gone, or does not come in time.
    pub fn finish(&mut self) -> Result<Synchronized, TchError> {
        lock(&self.state).finish(&self.parameters)
    }
}

/// What the hooks of all parameters share.
struct State {
    ranks: Box<dyn Ranks>,
    buckets: Vec<Bucket>,
    /// One for each parameter.
    gradients: Vec<Gradient>,
    in_last_pass: bool,
    /// The sums of the first buckets, in order, each with the moment at which it began.
    begun: Vec<(Nanos, Box<dyn Sum>)>,
    /// Why there will be no more: kept for the end of the backward pass, which is none of its business.
    failure: Option<TchError>,
}

struct Gradient {
    place: Place,
    /// Whether it is in its place: it is once a backward pass of this update has made it.
    is_placed: bool,
    /// How often the last backward pass of this update has added to it.
    additions: u32,
    /// How often that of the first step did: 0 for a parameter that takes no part. `None` in the first step.
    additions_expected: Option<u32>,
}

impl State {
    fn new(parameters: &[Tensor], ranks: Box<dyn Ranks>) -> Result<Self, TchError> {
        let (buckets, places) = lay_out(parameters)?;
        let gradient = |place| Gradient { place, is_placed: false, additions: 0, additions_expected: None };
        let gradients = places.into_iter().map(gradient).collect();
        Ok(Self { ranks, buckets, gradients, in_last_pass: false, begun: Vec::new(), failure: None })
    }

    /// A backward pass has added to the gradient of `parameter`.
    fn added(&mut self, index: usize, parameter: &Tensor) -> Result<(), TchError> {
        let gradient = &mut self.gradients[index];
        // The first addition is not one: autograd hands over what it has computed, which is cheaper to copy into its
        // place than to add to zeros there. Those that follow are made in the place.
        keep_gradient_in(parameter, &gradient.place.view)?;
        gradient.is_placed = true;
        if !self.in_last_pass {
            return Ok(());
        }
        gradient.additions += 1;
        let Some(expected) = gradient.additions_expected else { return Ok(()) };
        if gradient.additions > expected {
            // Its sum may be under way, with numbers that are not the last ones.
            return Err(TchError::Torch(format!(
                "the gradient of a parameter was added to {} times, {expected} in the first step; ranks can only \
                 share steps that are all alike",
                gradient.additions
            )));
        }
        if gradient.additions == expected {
            self.buckets[gradient.place.bucket].incomplete -= 1;
            while self.failure.is_none() && self.next_is_complete() {
                self.failure = self.begin_next().err();
            }
        }
        Ok(())
    }

    fn next_is_complete(&self) -> bool {
        self.buckets.get(self.begun.len()).is_some_and(|bucket| bucket.incomplete == 0)
    }

    /// Sums begin in the order of the buckets, so that it is the same on all ranks.
    fn begin_next(&mut self) -> Result<(), TchError> {
        let now = Nanos::monotonic_now();
        let sum = self.ranks.begin_sum(&self.buckets[self.begun.len()].flat)?;
        self.begun.push((now, sum));
        Ok(())
    }

    fn finish(&mut self, parameters: &[Tensor]) -> Result<Synchronized, TchError> {
        self.in_last_pass = false;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        for (gradient, parameter) in self.gradients.iter_mut().zip(parameters) {
            // It takes part in other steps, and perhaps in this one on other ranks: this rank adds nothing to it.
            if gradient.additions_expected > Some(0) && !gradient.is_placed {
                let _ = gradient.place.view.f_zero_()?;
                keep_gradient_in(parameter, &gradient.place.view)?;
            }
        }
        while self.begun.len() < self.buckets.len() {
            self.begin_next()?;
        }
        let times = self
            .begun
            .drain(..)
            .map(|(begin, sum)| Ok((begin, sum.wait()?)))
            .collect::<Result<Vec<_>, TchError>>()?;
        self.prepare();
        let sent_bytes = self.buckets.iter().map(Bucket::bytes).sum();
        Ok(Synchronized { total: time_under_way(&times), sent_bytes })
    }

    /// Makes ready for the next update, with what this one has shown if it was the first.
    fn prepare(&mut self) {
        for bucket in &mut self.buckets {
            bucket.incomplete = 0;
        }
        for gradient in &mut self.gradients {
            let expected = *gradient.additions_expected.get_or_insert(gradient.additions);
            self.buckets[gradient.place.bucket].incomplete += usize::from(expected > 0);
            gradient.additions = 0;
            gradient.is_placed = false;
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("who panics with it ends the backward pass, and the job with it")
}

/// How long at least one of these, each with its begin and its end in the order of the begins, was under way.
fn time_under_way(times: &[(Nanos, Option<Nanos>)]) -> Option<Nanos> {
    let (mut total, mut until) = (Nanos::ZERO, Nanos::ZERO);
    for &(begin, end) in times {
        let end = end?;
        total += end.saturating_sub(begin.max(until));
        until = until.max(end);
    }
    Some(total)
}

#[cfg(test)]
mod tests;
