//! All-reduces by themselves: their durations in the process groups that training uses, one tensor size at
//! a time.

use std::collections::VecDeque;

use schema::spec::{AllReduce, LaunchSpec};
use tch::{Device, Kind, Tensor};

use crate::{
    clock::{self, Clock, Phase, StepTime},
    failure::Failure,
    group::{Group, Reduction},
    launch::{choose_collectives, device_of, not_met, open_meeting, use_threads},
    step::{Completed, StepError, Trainer},
    steps::Steps,
};

/// Steps that each sum one tensor over all ranks in place.
///
/// On the CPU a step lasts from the moment at which this rank enters it until the sum is complete, and the
/// time to report it belongs to no step. On CUDA, all-reduces follow one another in the device's stream
/// while the host runs ahead, so that each lasts as long as it occupies the stream.
pub(crate) struct AllReduces {
    group: Group,
    tensor: Tensor,
    /// Bytes sent in each step in flight.
    sent: VecDeque<u64>,
    clock: Box<dyn Clock>,
}

impl AllReduces {
    /// Meets the other ranks of the launch, and makes the tensor.
    ///
    /// # Errors
    /// `unsupported` for devices without a common process group, `collective` if a rank does not come, `internal`
    /// if the launch names no meeting place, `out-of-memory`.
    pub(crate) fn start(told: &AllReduce, launch: &LaunchSpec, rank: u32) -> Result<Self, Failure> {
        let refused = |reason: String| Failure::unsupported(format!("all-reduce: {reason}"));
        let device = device_of(&launch.devices, rank)?;
        use_threads(launch.threads);
        let collectives = choose_collectives(told.collectives, &launch.devices).map_err(refused)?;
        let ranks = launch.devices.len() as u32;
        let meeting = open_meeting(told.rendezvous.as_deref(), rank, ranks, collectives, device)?;
        let group = meeting.form("all", rank, ranks).map_err(not_met)?;
        let numbers = told.bytes / Kind::Float.elt_size_in_bytes() as u64;
        // A sum of zeros stays zero.
        let tensor = Tensor::f_zeros([i64::try_from(numbers).unwrap_or(i64::MAX)], (Kind::Float, device))?;
        Ok(Self { group, tensor, sent: VecDeque::new(), clock: clock::of(device)? })
    }

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    pub(crate) fn device(&self) -> Device {
        self.tensor.device()
    }
}

impl Steps for AllReduces {
    fn restart(&mut self) -> Result<(), StepError> {
        self.clock.restart().map_err(StepError::Device)
    }

    fn issue(&mut self) -> Result<(), StepError> {
        if self.clock.in_flight() == 0 {
            self.restart()?;
        }
        self.clock.begin_step();
        let under_way = self.group.all_reduce(&self.tensor, Reduction::Sum).map_err(StepError::Collective)?;
        self.sent.push_back(self.group.take_sent_bytes());
        under_way.wait().map_err(StepError::Collective)?;
        self.clock.lap(Phase::SyncExposed).map_err(StepError::Device)?;
        self.clock.end_step().map_err(StepError::Device)
    }

    fn wait(&mut self) {
        self.clock.wait();
    }

    fn completed(&mut self, in_flight: usize) -> Result<Option<Completed>, StepError> {
        let time = self.clock.take(in_flight).map_err(StepError::Device)?;
        let sent_bytes = time.as_ref().and_then(|_| self.sent.pop_front());
        Ok(time.map(|StepTime { end, dur, phases, timing }| Completed {
            end,
            dur,
            samples: 0,
            // Nothing is trained, and a NaN loss is not reported.
            loss: f64::NAN,
            phases,
            sent_bytes,
            timing,
        }))
    }

    fn trainer(&mut self) -> Result<&mut Trainer, Failure> {
        Err(Failure::unsupported("between all-reduces there is nothing to pause or to put on file"))
    }
}
