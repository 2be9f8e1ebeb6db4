//! ZeRO: data-parallel ranks divide the optimizer's state among them (stage 1), the gradients (stage 2) and the parameters
//! (stage 3) (Rajbhandari et al., "ZeRO", SC 2020).
//!
//! The parameters of each link lie in one line of numbers, a unit, which is cut into equal shards, one for each rank. A rank
//! updates its shard. Gradients of a unit are summed by a reduce-scatter as soon as they are complete, and parameters are
//! gathered after the update (stages 1 and 2), or for the time in which their link runs (stage 3).

mod unit;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

use schema::units::Nanos;
use tch::{TchError, Tensor};

pub(crate) use self::unit::Shard;
use self::unit::Unit;
use crate::{
    chain::Ends,
    group::{Group, Work},
    nn::parameters::{Entry, Parameters},
    recompute,
    shim::{autograd::GradientHook, function::function},
    synchronize::{Synchronized, time_under_way},
};

/// The stages of ZeRO that divide something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Optimizer = 1,
    Gradients = 2,
    Parameters = 3,
}

impl Stage {
    /// The stage of a plan's `zero`; `None` if nothing is divided.
    pub(crate) fn of(zero: u8) -> Option<Self> {
        match zero {
            0 => None,
            1 => Some(Stage::Optimizer),
            2 => Some(Stage::Gradients),
            _ => Some(Stage::Parameters),
        }
    }
}

/// A rank's part of a model under ZeRO.
pub(crate) struct Sharded {
    state: Arc<Mutex<State>>,
    /// Autograd forgets the state when these go.
    _hooks: Vec<GradientHook>,
}

impl Sharded {
    /// Moves the trainable parameters into units and keeps the shard of this rank in `data`. Equal parameters on all ranks
    /// are expected. `gather` is the same group, which counts the traffic of parameters.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(
        stage: Stage,
        parameters: &Parameters,
        data: Group,
        gather: Group,
    ) -> Result<Self, TchError> {
        let state = Arc::new(Mutex::new(State::new(stage, parameters, data, gather)?));
        let mut hooks = Vec::new();
        for (number, unit) in lock(&state).units.iter().enumerate() {
            for (member, parameter) in unit.parameters().enumerate() {
                let state = Arc::clone(&state);
                let added = move |_: &Tensor| lock(&state).added(number, member);
                hooks.push(GradientHook::new(parameter, added)?);
            }
        }
        Ok(Self { state, _hooks: hooks })
    }

    /// The shards that this rank updates, one for each unit.
    pub(crate) fn shards(&self) -> Vec<Tensor> {
        lock(&self.state).units.iter().map(|unit| unit.shard().shallow_clone()).collect()
    }

    /// Whether a rank keeps its shards of the parameters alone between steps.
    pub(crate) fn divides_parameters(&self) -> bool {
        lock(&self.state).stage == Stage::Parameters
    }

    /// The pieces of parameters in each shard.
    pub(crate) fn pieces(&self) -> Vec<Vec<Shard>> {
        lock(&self.state).units.iter().map(Unit::pieces).collect()
    }

    /// Bytes of parameters that are not in the shards of this rank, if parameters are divided.
    pub(crate) fn bytes_elsewhere(&self) -> u64 {
        let state = lock(&self.state);
        let divides = state.stage == Stage::Parameters;
        state.units.iter().filter(|_| divides).map(Unit::bytes_elsewhere).sum()
    }

    /// The most bytes of parameters that were gathered at a time, and the size of the units of each link.
    #[cfg(test)]
    pub(crate) fn most_gathered(&self) -> (usize, Vec<usize>) {
        let state = lock(&self.state);
        let of_link = |units: &Vec<usize>| units.iter().map(|unit| state.units[*unit].bytes()).sum();
        (state.most_gathered_bytes, state.of_link.iter().map(of_link).collect())
    }

    /// The tensors that parameters lie in, or are kept in.
    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        lock(&self.state).units.iter().flat_map(Unit::tensors).collect()
    }

    /// What gathers the parameters of a link around its run; `None` if parameters are not divided.
    pub(crate) fn ends(&self) -> Option<Arc<dyn Ends>> {
        let gathers = lock(&self.state).stage == Stage::Parameters;
        gathers.then(|| Arc::new(Gathering(Arc::clone(&self.state))) as Arc<dyn Ends>)
    }

    /// To be called before each backward pass. `is_last` says that gradients will be complete after it.
    pub(crate) fn before_backward(&mut self, is_last: bool) {
        let mut state = lock(&self.state);
        state.reduces = is_last || state.stage >= Stage::Gradients;
    }

    /// To be called after each backward pass: reduces the units that no gradient has completed.
    ///
    /// # Errors
    /// Another rank has gone, or does not come in time.
    pub(crate) fn after_backward(&mut self) -> Result<(), TchError> {
        lock(&self.state).end_pass()
    }

    /// To be called after the last backward pass: the shards have their gradients then.
    ///
    /// # Errors
    /// Another rank has gone, or does not come in time.
    pub(crate) fn finish(&mut self) -> Synchronized {
        let times = std::mem::take(&mut lock(&self.state).times);
        Synchronized { total: time_under_way(&times) }
    }

    /// To be called when the shards were updated: all ranks get the parameters.
    ///
    /// # Errors
    /// Another rank has gone, or does not come in time.
    pub(crate) fn updated(&mut self) -> Result<(), TchError> {
        lock(&self.state).gather_updated()
    }
}

/// What hooks and links share.
struct State {
    stage: Stage,
    data: Group,
    gather: Group,
    /// In the order in which a backward pass completes them, which is that of their reductions on all ranks.
    units: Vec<Unit>,
    /// The units that each link uses.
    of_link: Vec<Vec<usize>>,
    /// Whether the gradients of the present backward pass are reduced.
    reduces: bool,
    /// Number of units whose reduction has begun in this pass.
    begun: usize,
    reducing: VecDeque<Reducing>,
    /// Begin and end of each reduction of this update.
    times: Vec<(Nanos, Option<Nanos>)>,
    /// The most bytes of parameters that were gathered at a time.
    #[cfg(test)]
    most_gathered_bytes: usize,
}

struct Reducing {
    unit: usize,
    begin: Nanos,
    part: Tensor,
    work: Work,
}

impl State {
    fn new(stage: Stage, parameters: &Parameters, data: Group, gather: Group) -> Result<Self, TchError> {
        // Tied weights are a unit of their own, so that a link gathers no other link's parameters with them.
        let mut groups: Vec<(Vec<usize>, Vec<&Entry>)> = Vec::new();
        for entry in parameters.trainable("") {
            match groups.iter_mut().find(|(links, _)| links == entry.links()) {
                Some((_, members)) => members.push(entry),
                None => groups.push((entry.links().to_vec(), vec![entry])),
            }
        }
        // A unit is complete when the pass has reached its first link; of two with the same one, the tied weight is the
        // last.
        groups.sort_by_key(|(links, _)| (std::cmp::Reverse(links[0]), links.len()));
        let count = groups.iter().flat_map(|(links, _)| links).max().map_or(0, |link| link + 1);
        let mut of_link = vec![Vec::new(); count];
        for (unit, (links, _)) in groups.iter().enumerate() {
            links.iter().for_each(|link| of_link[*link].push(unit));
        }
        let keeps = stage == Stage::Parameters;
        let units = groups
            .into_iter()
            .map(|(_, members)| Unit::new(&members, data.rank(), data.size(), keeps))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            stage,
            data,
            gather,
            units,
            of_link,
            reduces: false,
            begun: 0,
            reducing: VecDeque::new(),
            times: Vec::new(),
            #[cfg(test)]
            most_gathered_bytes: 0,
        })
    }

    /// A backward pass has added to the gradient of a member of a unit.
    fn added(&mut self, unit: usize, member: usize) -> Result<(), TchError> {
        let is_begun = self.reduces && unit < self.begun;
        let unit = &mut self.units[unit];
        if is_begun {
            return Err(TchError::Torch(
                "a parameter got a gradient after those of its link were complete; ZeRO can only divide steps \
                 whose backward passes add to each gradient once"
                    .into(),
            ));
        }
        unit.added(member)?;
        while self.reduces && self.units.get(self.begun).is_some_and(Unit::is_complete) {
            self.begin_next()?;
        }
        Ok(())
    }

    /// Begins to reduce the next unit. No more than two units have whole gradients because of reductions under way.
    fn begin_next(&mut self) -> Result<(), TchError> {
        let number = self.begun;
        self.begun += 1;
        let unit = &mut self.units[number];
        let part = unit.shard().f_empty_like()?;
        let begin = Nanos::monotonic_now();
        let work = self.data.reduce_scatter(&part, unit.gradients()?)?;
        self.reducing.push_back(Reducing { unit: number, begin, part, work });
        // All its uses are behind.
        self.release(number)?;
        while self.reducing.len() > 1 {
            self.settle_oldest()?;
        }
        Ok(())
    }

    fn settle_oldest(&mut self) -> Result<(), TchError> {
        let Some(Reducing { unit, begin, part, work }) = self.reducing.pop_front() else { return Ok(()) };
        let end = work.wait()?;
        self.times.push((begin, end));
        self.units[unit].reduced(&part)
    }

    fn end_pass(&mut self) -> Result<(), TchError> {
        if self.reduces {
            while self.begun < self.units.len() {
                self.begin_next()?;
            }
            while !self.reducing.is_empty() {
                self.settle_oldest()?;
            }
        }
        self.begun = 0;
        for number in 0..self.units.len() {
            self.units[number].end_pass();
            self.release(number)?;
        }
        Ok(())
    }

    fn gather_updated(&mut self) -> Result<(), TchError> {
        if self.stage == Stage::Parameters {
            return Ok(());
        }
        let gather = |unit: &Unit| self.gather.all_gather(unit.flat(), unit.shard());
        let under_way = self.units.iter().map(gather).collect::<Result<Vec<_>, _>>()?;
        under_way.into_iter().try_for_each(|work| work.wait().map(drop))
    }

    /// Begins to gather the parameters of a link, if there is such a link.
    fn expect(&mut self, link: Option<usize>) -> Result<(), TchError> {
        let units = link.and_then(|link| self.of_link.get(link)).cloned().unwrap_or_default();
        units.into_iter().try_for_each(|unit| self.units[unit].expect(&self.gather))?;
        #[cfg(test)]
        {
            let gathered = self.units.iter().map(Unit::gathered_bytes).sum();
            self.most_gathered_bytes = self.most_gathered_bytes.max(gathered);
        }
        Ok(())
    }

    /// Waits for the parameters of a link.
    fn need(&mut self, link: usize) -> Result<(), TchError> {
        self.expect(Some(link))?;
        let units = self.of_link.get(link).cloned().unwrap_or_default();
        units.into_iter().try_for_each(|unit| self.units[unit].need())
    }

    /// Gives back the parameters of other ranks that a link has used.
    fn leave(&mut self, link: usize) -> Result<(), TchError> {
        let units = self.of_link.get(link).cloned().unwrap_or_default();
        units.into_iter().try_for_each(|unit| self.release(unit))
    }

    fn release(&mut self, unit: usize) -> Result<(), TchError> {
        if self.stage == Stage::Parameters { self.units[unit].release() } else { Ok(()) }
    }
}

/// Gathers the parameters of each link for its forward and its backward pass, and those of the next link meanwhile.
struct Gathering(Arc<Mutex<State>>);

impl Ends for Gathering {
    fn before(&self, link: usize, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        {
            let mut state = lock(&self.0);
            state.need(link)?;
            let next = if recompute::is_again() { link.checked_sub(1) } else { Some(link + 1) };
            state.expect(next)?;
        }
        // The backward pass of the link ends at its inputs. The inputs of a batch have no gradient; the parameters of
        // their link are released when its gradients are complete.
        let state = Arc::clone(&self.0);
        at_gradients(carry.iter().map(Tensor::shallow_clone).collect(), move || lock(&state).leave(link))
    }

    fn after(&self, link: usize, carry: Vec<Tensor>) -> Result<Vec<Tensor>, TchError> {
        // After a second run the backward pass of the link follows at once.
        if !recompute::is_again() {
            lock(&self.0).leave(link)?;
        }
        let state = Arc::clone(&self.0);
        at_gradients(carry, move || {
            let mut state = lock(&state);
            state.need(link)?;
            state.expect(link.checked_sub(1))
        })
    }
}

/// Calls `act` when a backward pass has the gradients of those of `carry` that require one.
fn at_gradients(
    mut carry: Vec<Tensor>,
    act: impl Fn() -> Result<(), TchError> + Send + 'static,
) -> Result<Vec<Tensor>, TchError> {
    let places: Vec<usize> = (0..carry.len()).filter(|place| carry[*place].requires_grad()).collect();
    if places.is_empty() {
        return Ok(carry);
    }
    let watched: Vec<Tensor> = places.iter().map(|place| carry[*place].shallow_clone()).collect();
    let values: Vec<Tensor> = watched.iter().map(Tensor::detach).collect();
    let backward = move |gradients| act().map(|()| gradients);
    for (place, output) in places.into_iter().zip(function(&watched, &values, Box::new(backward))?) {
        carry[place] = output;
    }
    Ok(carry)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("who panics with it ends the backward pass, and the job with it")
}
