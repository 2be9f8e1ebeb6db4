//! The clock of a device that works on its own: marks in its stream, looked at when the device has come by.
//!
//! The host never waits for the device to be idle, which would leave it without work at every step. It runs some steps
//! ahead instead and learns of each one's times a few steps later.

use std::{collections::VecDeque, thread, time::Duration};

use schema::{
    units::Nanos,
    wire::{Phases, Timing},
};
use tch::TchError;

use super::{Clock, Phase, StepTime};
use crate::shim::event::CudaEvent;

/// Where marks are left in order and come by in order, and the host's clock beside it.
pub(super) trait Stream {
    type Mark;

    fn new_mark(&self) -> Result<Self::Mark, TchError>;

    /// Puts `mark` behind all that was queued so far; where it was put before is forgotten.
    fn put(&self, mark: &mut Self::Mark) -> Result<(), TchError>;

    /// Whether the device has come by.
    fn is_done(&self, mark: &Self::Mark) -> Result<bool, TchError>;

    /// The device's time between two marks that it has come by, in milliseconds.
    fn milliseconds(&self, from: &Self::Mark, to: &Self::Mark) -> Result<f64, TchError>;

    fn host_now(&self) -> Nanos;

    fn sleep(&self, time: Duration);
}

/// The stream that this thread's work on a CUDA device goes to.
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

/// Leaves a mark at every lap. The last lap's mark is the step's end and the boundary that the next step begins at, so
/// the phases of a step fill it: the time in which the device had nothing to do belongs to the phase it waited for.
pub(super) struct DeviceClock<S: Stream> {
    stream: S,
    /// Where the last step that was given ended, or the last rest.
    boundary: S::Mark,
    /// The same moment on the host's clock.
    end: Nanos,
    /// How long the last step took: steps are alike, so it says how often to ask for the next one.
    last_dur: Nanos,
    /// Laps of the step that is being issued.
    laps: Vec<(Phase, S::Mark)>,
    /// When the last of them was put.
    last_put: Nanos,
    in_flight: VecDeque<Issued<S::Mark>>,
    /// When the oldest of them, or one before it, was last seen not to be done: it did not end earlier.
    not_done: Nanos,
    /// Marks that nobody needs any more.
    pool: Vec<S::Mark>,
}

/// A step that the device may still be working on.
struct Issued<M> {
    laps: Vec<(Phase, M)>,
    /// When its last mark was put, on the host's clock: it did not end earlier.
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

    /// The times of a step that is done and was seen to be at `seen`.
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
        // The device's clock counts from step to step, as differences of far marks lose digits. It runs a little faster
        // or slower than the host's, so the sum is held between what the host knows: when it put the mark or last asked
        // in vain, and when it saw that the device had come by.
        let end = (self.end + dur).clamp(step.at.max(self.not_done), seen);
        Ok(StepTime { end, dur, phases, timing: Timing::DeviceEvent })
    }
}

impl<S: Stream> Clock for DeviceClock<S> {
    fn restart(&mut self) -> Result<(), TchError> {
        assert!(self.in_flight.is_empty(), "nobody rests while steps are in flight");
        // The device is idle and comes by at once.
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

    /// Sleeps, as asking without a pause would take a core from others, for a small part of a step.
    fn wait(&mut self) {
        const PART: u64 = 16;
        // Linux adds its timer slack, 50 us, to whatever is asked for. The longest sleep bounds how late the end of a
        // step is seen that is shorter than the last one.
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

    /// Issues a step of two laps on whose work the device will spend these times.
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
        // A device whose clock runs ahead tells of moments that have not come.
        let device = Scripted::at(0);
        let mut clock = device.clock();
        device.set_rate(1.5);
        for step in 1..=3 {
            issue(&device, &mut *clock, 0, 10 * MS);
            device.let_it_be(step * 10 * MS);
            assert_eq!(ends(&mut *clock), [(step * 10 * MS, 15 * MS)]);
        }
        // One that lags behind tells of moments before the step was issued.
        device.set_rate(0.5);
        for step in 4..=6 {
            issue(&device, &mut *clock, 0, 0);
            let issued = device.host_now().0;
            device.let_it_be(step * 10 * MS);
            let [(end, dur)] = ends(&mut *clock)[..] else { panic!("one step is done") };
            assert_eq!(end, issued);
            assert!(dur <= 5 * MS);
        }
        // Where the host waits it knows better: it has asked before.
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
