//! The clock of an asynchronous device, from marks in its stream that are read after the device has passed
//! them.
//!
//! The host never waits for the device to be idle, which would leave it without work at every step. It runs
//! some steps ahead and learns the times of a step a few steps later.

use std::{collections::VecDeque, thread, time::Duration};

use schema::{
    units::Nanos,
    wire::{Phases, Timing},
};
use tch::TchError;

use super::{Clock, Phase, StepTime};
use crate::shim::event::CudaEvent;

/// A stream, which passes marks in order, and the host's clock.
pub(super) trait Stream {
    type Mark;

    fn new_mark(&self) -> Result<Self::Mark, TchError>;

    /// Puts `mark` behind all queued work. Its earlier position is forgotten.
    fn put(&self, mark: &mut Self::Mark) -> Result<(), TchError>;

    /// Whether the device has passed the mark.
    fn is_done(&self, mark: &Self::Mark) -> Result<bool, TchError>;

    /// The device's time between two passed marks, in milliseconds.
    fn milliseconds(&self, from: &Self::Mark, to: &Self::Mark) -> Result<f64, TchError>;

    fn host_now(&self) -> Nanos;

    fn sleep(&self, time: Duration);
}

/// The stream of this thread's work on a CUDA device.
pub(super) struct CudaStream(pub(super) usize);

impl Stream for CudaStream {
    type Mark = CudaEvent;

    fn new_mark(&self) -> Result<CudaEvent, TchError> {
        CudaEvent::new()
    }

    fn put(&self, mark: &mut CudaEvent) -> Result<(), TchError> {
        mark.record(self.0)
    }

    fn is_done(&self, mark: &CudaEvent) -> Result<bool, TchError> {
        mark.is_done()
    }

    fn milliseconds(&self, from: &CudaEvent, to: &CudaEvent) -> Result<f64, TchError> {
        to.milliseconds_since(from)
    }

    fn host_now(&self) -> Nanos {
        Nanos::monotonic_now()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// Leaves a mark at every lap. The last mark is the end of the step and the beginning of the next one, so
/// that phases fill a step: idle time of the device belongs to the phase it waited for.
pub(super) struct DeviceClock<S: Stream> {
    stream: S,
    /// The end of the last returned step, or of the last rest.
    boundary: S::Mark,
    /// The same moment on the host's clock.
    end: Nanos,
    /// Duration of the last step, from which the polling interval for the next one follows, as steps are
    /// alike.
    last_dur: Nanos,
    /// Laps of the step that is being issued.
    laps: Vec<(Phase, S::Mark)>,
    /// Time at which the last of them was put.
    last_put: Nanos,
    in_flight: VecDeque<Issued<S::Mark>>,
    /// The last time at which the oldest step, or one before it, was seen unfinished: a lower bound for its
    /// end.
    not_done: Nanos,
    /// Marks for reuse.
    pool: Vec<S::Mark>,
}

/// A step that the device may still be working on.
struct Issued<M> {
    laps: Vec<(Phase, M)>,
    /// Time at which its last mark was put, on the host's clock: a lower bound for its end.
    at: Nanos,
}

impl<S: Stream> DeviceClock<S> {
    /// # Errors
    /// An error of the device.
    pub(super) fn new(stream: S) -> Result<Self, TchError> {
        let mut boundary = stream.new_mark()?;
        let end = stream.host_now();
        stream.put(&mut boundary)?;
        Ok(Self {
            stream,
            boundary,
            end,
            last_dur: Nanos::ZERO,
            laps: Vec::new(),
            last_put: end,
            in_flight: VecDeque::new(),
            not_done: end,
            pool: Vec::new(),
        })
    }

    /// The times of a step that was seen to be done at `seen`.
    fn time(&self, step: &Issued<S::Mark>, seen: Nanos) -> Result<StepTime, TchError> {
        let between =
            |from, to| Ok::<_, TchError>(Nanos::from_secs_f64(self.stream.milliseconds(from, to)? / 1e3));
        let mut phases = Phases::default();
        let mut last = &self.boundary;
        for (phase, mark) in &step.laps {
            phase.add(between(last, mark)?, &mut phases);
            last = mark;
        }
        let dur = between(&self.boundary, last)?;
        // Durations are measured from step to step, because differences between distant marks lose digits.
        // The device's clock runs slightly faster or slower than the host's, so the sum is limited by what
        // the host knows: the time of the mark or of the last poll before it, and the time of the poll
        // after it.
        let end = (self.end + dur).clamp(step.at.max(self.not_done), seen);
        Ok(StepTime { end, dur, phases, timing: Timing::DeviceEvent })
    }
}

impl<S: Stream> Clock for DeviceClock<S> {
    fn restart(&mut self) -> Result<(), TchError> {
        assert!(self.in_flight.is_empty(), "no step is in flight at a rest");
        // The device is idle and passes the mark at once.
        self.end = self.stream.host_now();
        self.stream.put(&mut self.boundary)
    }

    fn begin_step(&mut self) {}

    fn lap(&mut self, phase: Phase) -> Result<(), TchError> {
        let mut mark = self.pool.pop().map_or_else(|| self.stream.new_mark(), Ok)?;
        self.last_put = self.stream.host_now();
        self.stream.put(&mut mark)?;
        self.laps.push((phase, mark));
        Ok(())
    }

    fn end_step(&mut self) -> Result<(), TchError> {
        let laps = std::mem::take(&mut self.laps);
        assert!(!laps.is_empty(), "a step has laps");
        self.in_flight.push_back(Issued { laps, at: self.last_put });
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn oldest(&mut self) -> Result<Option<StepTime>, TchError> {
        let Some(step) = self.in_flight.front() else { return Ok(None) };
        let (_, end) = step.laps.last().expect("`end_step` saw to it");
        let asked = self.stream.host_now();
        if !self.stream.is_done(end)? {
            self.not_done = asked;
            return Ok(None);
        }
        let time = self.time(step, self.stream.host_now())?;
        let step = self.in_flight.pop_front().expect("it was looked at");
        self.pool.extend(step.laps.into_iter().map(|(_, mark)| mark));
        let end = self.pool.pop().expect("its last lap");
        self.pool.push(std::mem::replace(&mut self.boundary, end));
        (self.end, self.last_dur) = (time.end, time.dur);
        Ok(Some(time))
    }

    /// Sleeps for a small part of a step, because polling without a pause would take a core from others.
    fn wait(&mut self) {
        const PART: u64 = 16;
        // Linux adds its timer slack of 50 us to every sleep. The longest sleep bounds the delay for a step
        // that is shorter than the last one.
        const SHORTEST: Duration = Duration::from_micros(20);
        const LONGEST: Duration = Duration::from_millis(1);
        let part = Nanos(self.last_dur.0 / PART).as_duration();
        self.stream.sleep(part.clamp(SHORTEST, LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::scripted::Scripted;

    const MS: u64 = 1_000_000;

    /// Issues a step of two laps that take the device these times.
    fn issue(device: &Scripted, clock: &mut dyn Clock, data: u64, forward: u64) {
        device.will_work(&[data, forward]);
        clock.begin_step();
        clock.lap(Phase::Data).unwrap();
        clock.lap(Phase::Forward).unwrap();
        clock.end_step().unwrap();
    }

    fn ends(clock: &mut dyn Clock) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| clock.oldest().unwrap()).map(|step| (step.end.0, step.dur.0)).collect()
    }

    #[test]
    fn steps_are_timed_by_the_device_when_it_comes_by_and_in_order() {
        let device = Scripted::at(100 * MS);
        let mut clock = device.clock();
        for (data, forward) in [(1, 3), (2, 6), (1, 4)] {
            issue(&device, &mut *clock, data * MS, forward * MS);
        }
        assert_eq!((clock.in_flight(), clock.oldest().unwrap()), (3, None));
        device.let_it_be(104 * MS - 1);
        assert_eq!(clock.oldest().unwrap(), None, "one nanosecond is missing");
        device.let_it_be(112 * MS);
        let first = clock.oldest().unwrap().unwrap();
        assert_eq!(
            (first.end, first.dur, first.timing),
            (Nanos(104 * MS), Nanos(4 * MS), Timing::DeviceEvent)
        );
        let phases =
            Phases { data_ns: Some(Nanos(MS)), forward_ns: Some(Nanos(3 * MS)), ..Phases::default() };
        assert_eq!(first.phases, phases);
        assert_eq!(ends(&mut *clock), [(112 * MS, 8 * MS)], "the third is not done");
        device.let_it_be(500 * MS);
        assert_eq!(ends(&mut *clock), [(117 * MS, 5 * MS)], "seen late, it ended when it did");
        assert_eq!((clock.in_flight(), clock.oldest().unwrap()), (0, None));
    }

    #[test]
    fn an_end_lies_between_the_mark_and_the_sight_of_it_whatever_the_device_counts() {
        // A device whose clock runs fast reports moments in the future.
        let device = Scripted::at(0);
        let mut clock = device.clock();
        device.set_rate(1.5);
        for step in 1..=3 {
            issue(&device, &mut *clock, 0, 10 * MS);
            device.let_it_be(step * 10 * MS);
            assert_eq!(ends(&mut *clock), [(step * 10 * MS, 15 * MS)]);
        }
        // A device whose clock runs slow reports moments before the step was issued.
        device.set_rate(0.5);
        for step in 4..=6 {
            issue(&device, &mut *clock, 0, 0);
            let issued = device.host_now().0;
            device.let_it_be(step * 10 * MS);
            let [(end, dur)] = ends(&mut *clock)[..] else { panic!("one step is done") };
            assert_eq!(end, issued);
            assert!(dur <= 5 * MS);
        }
        // A host that polled meanwhile has a better bound.
        issue(&device, &mut *clock, 0, 10 * MS);
        device.let_it_be(69 * MS);
        assert_eq!(clock.oldest().unwrap(), None);
        device.let_it_be(75 * MS);
        let [(end, _)] = ends(&mut *clock)[..] else { panic!("one step is done") };
        assert_eq!(end, 69 * MS);
    }

    #[test]
    fn time_at_rest_belongs_to_no_step() {
        let device = Scripted::at(0);
        let mut clock = device.clock();
        device.let_it_be(50 * MS);
        clock.restart().unwrap();
        issue(&device, &mut *clock, 0, 10 * MS);
        device.let_it_be(70 * MS);
        assert_eq!(ends(&mut *clock), [(60 * MS, 10 * MS)]);
        device.let_it_be(900 * MS);
        clock.restart().unwrap();
        issue(&device, &mut *clock, 0, 10 * MS);
        device.let_it_be(1000 * MS);
        assert_eq!(ends(&mut *clock), [(910 * MS, 10 * MS)]);
    }

    #[test]
    fn marks_are_used_again() {
        let device = Scripted::at(0);
        let mut clock = device.clock();
        for _ in 0..100 {
            issue(&device, &mut *clock, MS, MS);
            if clock.in_flight() == 3 {
                while clock.oldest().unwrap().is_none() {
                    clock.wait();
                }
            }
        }
        assert_eq!(device.marks_made(), 3 * 2 + 1, "those of three steps, and the boundary before them");
    }
}
