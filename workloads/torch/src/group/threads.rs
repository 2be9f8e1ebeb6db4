//! Ranks that are threads of one process, for tests.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use front_door::LONG;
use schema::units::Nanos;
use tch::{TchError, Tensor, no_grad};

use super::{Group, Ranks, Reduction, Transfer};

/// One of several ranks. The last one to enter a collective computes it for all.
pub(crate) struct Thread {
    rank: usize,
    /// Number of collectives that this rank has begun.
    begun: AtomicUsize,
    meeting: Arc<Meeting>,
}

struct Meeting {
    ranks: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    collectives: Vec<Collective>,
    /// Tensors that were sent and not received yet, by sender, receiver and tag.
    sent: HashMap<(usize, usize, u32), Vec<Tensor>>,
}

#[derive(Default)]
struct Collective {
    /// What each rank has brought, in the order of ranks: the tensor to read, and the one to write.
    brought: Vec<Option<(Tensor, Tensor)>>,
    end: Option<Nanos>,
}

impl Thread {
    /// All ranks of a group, each for a thread of its own.
    pub(crate) fn group(ranks: usize) -> Vec<Group> {
        let meeting = Arc::new(Meeting { ranks, state: Mutex::default(), changed: Condvar::new() });
        let member = |rank| Thread { rank, begun: AtomicUsize::new(0), meeting: Arc::clone(&meeting) };
        (0..ranks).map(|rank| Group::new(member(rank))).collect()
    }

    /// Enters a collective that reads `from` and writes `to` of all ranks.
    fn enter(
        &self,
        from: &Tensor,
        to: &Tensor,
        make: impl Fn(&[Tensor]) -> Result<Vec<Tensor>, TchError>,
    ) -> Result<Box<dyn Transfer>, TchError> {
        let index = self.begun.fetch_add(1, Ordering::Relaxed);
        let mut state = self.meeting.state.lock().unwrap();
        if state.collectives.len() <= index {
            state.collectives.push(Collective::default());
        }
        let collective = &mut state.collectives[index];
        collective.brought.resize_with(self.meeting.ranks, || None);
        collective.brought[self.rank] = Some((from.detach(), to.detach()));
        if collective.brought.iter().all(Option::is_some) {
            let (from, to): (Vec<_>, Vec<_>) =
                std::mem::take(&mut collective.brought).into_iter().flatten().unzip();
            no_grad(|| {
                for (mut place, made) in to.into_iter().zip(make(&from)?) {
                    place.f_copy_(&made.f_view_as(&place)?)?;
                }
                Ok::<_, TchError>(())
            })?;
            collective.end = Some(Nanos::monotonic_now());
            self.meeting.changed.notify_all();
        }
        Ok(Box::new(Entered { index, meeting: Arc::clone(&self.meeting) }))
    }
}

impl Ranks for Thread {
    fn rank(&self) -> u32 {
        self.rank as u32
    }

    fn size(&self) -> u32 {
        self.meeting.ranks as u32
    }

    /// Parts are added in the order of the ranks, so that the sum is the same in every run.
    fn all_reduce(&self, tensor: &Tensor, reduction: Reduction) -> Result<Box<dyn Transfer>, TchError> {
        self.enter(tensor, tensor, |all| {
            let stacked = Tensor::f_stack(all, 0)?;
            let reduced = match reduction {
                Reduction::Sum => stacked.f_sum_dim_intlist(0, false, None)?,
                Reduction::Maximum => stacked.f_amax([0], false)?,
            };
            Ok(all.iter().map(|_| reduced.shallow_clone()).collect())
        })
    }

    fn broadcast(&self, tensor: &Tensor, root: u32) -> Result<Box<dyn Transfer>, TchError> {
        self.enter(tensor, tensor, |all| {
            let first = all[root as usize].f_detach_copy()?;
            Ok(all.iter().map(|_| first.shallow_clone()).collect())
        })
    }

    fn all_gather(&self, whole: &Tensor, part: &Tensor) -> Result<Box<dyn Transfer>, TchError> {
        self.enter(part, whole, |all| {
            let lines = all.iter().map(|part| part.f_view([-1])).collect::<Result<Vec<_>, _>>()?;
            let whole = Tensor::f_cat(&lines, 0)?;
            Ok(all.iter().map(|_| whole.shallow_clone()).collect())
        })
    }

    fn reduce_scatter(&self, part: &Tensor, whole: &Tensor) -> Result<Box<dyn Transfer>, TchError> {
        self.enter(whole, part, |all| {
            let sum = Tensor::f_stack(all, 0)?.f_sum_dim_intlist(0, false, None)?;
            sum.f_view([-1])?.f_chunk(all.len() as i64, 0)
        })
    }

    fn send(&self, tensor: &Tensor, to: u32, tag: u32) -> Result<Box<dyn Transfer>, TchError> {
        let mut state = self.meeting.state.lock().unwrap();
        let sent = state.sent.entry((self.rank, to as usize, tag)).or_default();
        sent.push(tensor.detach().f_detach_copy()?);
        self.meeting.changed.notify_all();
        Ok(Box::new(Sent))
    }

    fn receive(&self, tensor: &Tensor, from: u32, tag: u32) -> Result<Box<dyn Transfer>, TchError> {
        let key = (from as usize, self.rank, tag);
        Ok(Box::new(Received { key, place: tensor.detach(), meeting: Arc::clone(&self.meeting) }))
    }

    fn barrier(&self) -> Result<(), TchError> {
        let nothing = Tensor::from(0.0);
        self.all_reduce(&nothing, Reduction::Sum)?.wait().map(drop)
    }
}

impl Meeting {
    /// Waits until `take` finds what it waits for.
    fn wait<T>(&self, mut take: impl FnMut(&mut State) -> Option<T>) -> Result<T, TchError> {
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(found) = take(&mut state) {
                return Ok(found);
            }
            let (again, waited) = self.changed.wait_timeout(state, LONG).unwrap();
            if waited.timed_out() {
                return Err(TchError::Torch("a rank did not come".into()));
            }
            state = again;
        }
    }
}

struct Entered {
    index: usize,
    meeting: Arc<Meeting>,
}

impl Transfer for Entered {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        self.meeting.wait(|state| state.collectives[self.index].end).map(Some)
    }
}

struct Sent;

impl Transfer for Sent {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        Ok(None)
    }
}

struct Received {
    key: (usize, usize, u32),
    place: Tensor,
    meeting: Arc<Meeting>,
}

impl Transfer for Received {
    fn wait(mut self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        let key = self.key;
        let sent = self.meeting.wait(|state| {
            let waiting = state.sent.get_mut(&key).filter(|waiting| !waiting.is_empty())?;
            Some(waiting.remove(0))
        })?;
        no_grad(|| self.place.f_copy_(&sent.f_view_as(&self.place)?))?;
        Ok(None)
    }
}
