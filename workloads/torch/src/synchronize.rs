//! Gradients of the whole batch: each rank has those of its own samples, and all get the sum.
//!
//! A large gradient is summed where autograd left it. Small ones lie in a few flat tensors, the buckets, so that a few large
//! collectives move them. Autograd tells when it has added to a gradient; when all that a sum moves is complete it begins,
//! while the backward pass goes on with the layers before it (Li et al., "PyTorch Distributed", VLDB 2020).

mod buckets;

use std::sync::{Arc, Mutex, MutexGuard};

use schema::units::Nanos;
use tch::{TchError, Tensor};

use self::buckets::{Numbers, Place, Portion, lay_out};
use crate::{
    group::{Group, Reduction, Work},
    shim::{
        autograd::{GradientHook, UnsharedGradient, keep_gradient_in},
        layout::gradient_as_line,
    },
};

/// What the gradients of one update took to become those of the whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synchronized {
    /// The time in which at least one sum was under way, hidden behind the backward pass or not; `None` where the
    /// backend does not tell.
    pub total: Option<Nanos>,
}

/// Sums the gradients of one update over all ranks.
///
/// In which order a backward pass completes gradients, and how often it adds to each, is for the first step to show: a
/// tied weight gets one addition for all its uses, and several where some of them are recomputed, each in a pass of its
/// own. So the sums of the first step begin when its backward pass has ended, and those of later ones during the pass.
pub struct GradientSync {
    state: Arc<Mutex<State>>,
    /// Autograd forgets the state when these go.
    _hooks: Vec<GradientHook>,
    /// Those that are summed where autograd left them.
    _unshared: Vec<UnsharedGradient>,
}

impl GradientSync {
    /// Allocates the buckets. `parameters` are leaves of one kind on one device, in the same order on all ranks of `group`,
    /// which is used from the thread of the backward pass.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(parameters: &[Tensor], group: Group) -> Result<Self, TchError> {
        let state = Arc::new(Mutex::new(State::new(parameters, group)?));
        let hook = |(index, parameter)| {
            let state = Arc::clone(&state);
            GradientHook::new(parameter, move |parameter| lock(&state).added(index, parameter))
        };
        let hooks = parameters.iter().enumerate().map(hook).collect::<Result<_, _>>()?;
        let left = |portion: &Portion| match portion.numbers {
            Numbers::Left { parameter } => Some(UnsharedGradient::new(&parameters[parameter])),
            Numbers::Bucket(_) => None,
        };
        let unshared = lock(&state).portions.iter().filter_map(left).collect::<Result<_, _>>()?;
        Ok(Self { state, _hooks: hooks, _unshared: unshared })
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
    /// Another rank has gone, or does not come in time.
    pub fn finish(&mut self) -> Result<Synchronized, TchError> {
        lock(&self.state).finish()
    }
}

/// What the hooks of all parameters share.
struct State {
    group: Group,
    parameters: Vec<Tensor>,
    /// One for each parameter.
    gradients: Vec<Gradient>,
    portions: Vec<Portion>,
    in_last_pass: bool,
    /// The sums of the first portions, in order, each with the moment at which it began.
    begun: Vec<(Nanos, Work)>,
    /// The error after which no sum begins. It is reported after the backward pass, which it does not concern.
    failure: Option<TchError>,
}

struct Gradient {
    place: Place,
    /// Whether a backward pass of this update has made it. It is in its place then.
    is_made: bool,
    /// Number of additions to it in the last backward pass of this update.
    additions: u32,
    /// Number of additions in the first step: 0 for a parameter that is not used. `None` in the first step.
    additions_expected: Option<u32>,
}

impl State {
    fn new(parameters: &[Tensor], group: Group) -> Result<Self, TchError> {
        let (portions, places) = lay_out(parameters)?;
        let gradient = |place| Gradient { place, is_made: false, additions: 0, additions_expected: None };
        let gradients = places.into_iter().map(gradient).collect();
        let parameters = parameters.iter().map(Tensor::shallow_clone).collect();
        Ok(Self {
            group,
            parameters,
            gradients,
            portions,
            in_last_pass: false,
            begun: Vec::new(),
            failure: None,
        })
    }

    /// A backward pass has added to the gradient of `parameter`.
    fn added(&mut self, index: usize, parameter: &Tensor) -> Result<(), TchError> {
        let gradient = &mut self.gradients[index];
        // The first addition is not one: autograd hands over what it has computed. A large gradient stays there; a small
        // one is cheaper to copy into its bucket than to add to zeros there. Additions that follow are made in the place.
        if let Some(view) = &gradient.place.view {
            keep_gradient_in(parameter, view)?;
        }
        gradient.is_made = true;
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
            self.portions[gradient.place.portion].incomplete -= 1;
            while self.failure.is_none() && self.next_is_complete() {
                self.failure = self.begin_next().err();
            }
        }
        Ok(())
    }

    fn next_is_complete(&self) -> bool {
        self.portions.get(self.begun.len()).is_some_and(|portion| portion.incomplete == 0)
    }

    /// Sums begin in the order of the portions, so that it is the same on all ranks.
    fn begin_next(&mut self) -> Result<(), TchError> {
        let flat = match &self.portions[self.begun.len()].numbers {
            Numbers::Bucket(bucket) => bucket.shallow_clone(),
            Numbers::Left { parameter } => flat_gradient(&self.parameters[*parameter])?,
        };
        let now = Nanos::monotonic_now();
        let sum = self.group.all_reduce(&flat, Reduction::Sum)?;
        self.begun.push((now, sum));
        Ok(())
    }

    fn finish(&mut self) -> Result<Synchronized, TchError> {
        self.in_last_pass = false;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        for (gradient, parameter) in self.gradients.iter().zip(&self.parameters) {
            // It takes part in other steps, and perhaps in this one on other ranks: this rank adds nothing to it.
            if gradient.additions_expected > Some(0) && !gradient.is_made {
                let nothing = match &gradient.place.view {
                    Some(view) => view.shallow_clone().f_zero_()?,
                    None => parameter.f_zeros_like()?,
                };
                keep_gradient_in(parameter, &nothing)?;
            }
        }
        while self.begun.len() < self.portions.len() {
            self.begin_next()?;
        }
        let times = self
            .begun
            .drain(..)
            .map(|(begin, sum)| Ok((begin, sum.wait()?)))
            .collect::<Result<Vec<_>, TchError>>()?;
        self.prepare();
        Ok(Synchronized { total: time_under_way(&times) })
    }

    /// Makes ready for the next update, with what this one has shown if it was the first.
    fn prepare(&mut self) {
        for portion in &mut self.portions {
            portion.incomplete = 0;
        }
        for gradient in &mut self.gradients {
            let expected = *gradient.additions_expected.get_or_insert(gradient.additions);
            self.portions[gradient.place.portion].incomplete += usize::from(expected > 0);
            gradient.additions = 0;
            gradient.is_made = false;
        }
    }
}

/// The gradient of `parameter` where it lies. One that takes part in nothing has none; other ranks cannot know that, so zeros
/// replace it, and their sum is not used.
fn flat_gradient(parameter: &Tensor) -> Result<Tensor, TchError> {
    if parameter.f_grad()?.defined() {
        gradient_as_line(parameter)
    } else {
        Tensor::f_zeros([parameter.numel() as i64], (parameter.f_kind()?, parameter.device()))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("who panics with it ends the backward pass, and the job with it")
}

/// How long at least one of these, each with its begin and its end in the order of the begins, was under way.
pub(crate) fn time_under_way(times: &[(Nanos, Option<Nanos>)]) -> Option<Nanos> {
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
