//! A device with scripted durations, on a clock that the test advances.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, time::Duration};

use schema::units::Nanos;
use tch::TchError;

use super::{
    Clock,
    device::{DeviceClock, Stream},
};

/// A handle on a device; clones share it.
#[derive(Clone)]
pub(crate) struct Scripted(Rc<RefCell<State>>);

struct State {
    /// The host's clock. It advances when a test says so, and while the host sleeps.
    host: u64,
    /// Durations of the work before each of the next marks; 0 after the last one.
    work: VecDeque<u64>,
    /// Time at which the device will have finished the queued work.
    through: u64,
    /// Rate of the device's clock relative to the host's.
    rate: f64,
    /// Time from which on the device reports an error.
    broken_from: u64,
    marks_made: usize,
    /// An action at a given time of the host's clock, if the host sleeps then.
    meanwhile: Option<(u64, Box<dyn FnOnce()>)>,
}

/// Time of the host's clock at which the device passes the mark.
pub(crate) struct Mark(Option<u64>);

impl Scripted {
    /// A device whose host clock begins at `host` nanoseconds.
    pub(crate) fn at(host: u64) -> Self {
        Self(Rc::new(RefCell::new(State {
            host,
            work: VecDeque::new(),
            through: 0,
            rate: 1.0,
            broken_from: u64::MAX,
            marks_made: 0,
            meanwhile: None,
        })))
    }

    pub(crate) fn clock(&self) -> Box<dyn Clock> {
        Box::new(DeviceClock::new(self.clone()).expect("the script has no error yet"))
    }

    /// Sets the durations of the work before each of the next marks.
    pub(crate) fn will_work(&self, nanoseconds: &[u64]) {
        self.0.borrow_mut().work.extend(nanoseconds);
    }

    /// Advances the host's clock to `host`, as if the host were busy.
    pub(crate) fn let_it_be(&self, host: u64) {
        self.0.borrow_mut().host = host;
    }

    pub(crate) fn set_rate(&self, rate: f64) {
        self.0.borrow_mut().rate = rate;
    }

    pub(crate) fn break_from(&self, host: u64) {
        self.0.borrow_mut().broken_from = host;
    }

    /// Calls `act` when the host's clock reaches `host`, if the host sleeps then.
    pub(crate) fn meanwhile(&self, host: u64, act: impl FnOnce() + 'static) {
        self.0.borrow_mut().meanwhile = Some((host, Box::new(act)));
    }

    pub(crate) fn marks_made(&self) -> usize {
        self.0.borrow().marks_made
    }
}

impl Stream for Scripted {
    type Mark = Mark;

    fn new_mark(&self) -> Result<Mark, TchError> {
        self.0.borrow_mut().marks_made += 1;
        Ok(Mark(None))
    }

    fn put(&self, mark: &mut Mark) -> Result<(), TchError> {
        let mut state = self.0.borrow_mut();
        let work = state.work.pop_front().unwrap_or(0);
        state.through = state.through.max(state.host) + work;
        mark.0 = Some(state.through);
        Ok(())
    }

    fn is_done(&self, mark: &Mark) -> Result<bool, TchError> {
        let state = self.0.borrow();
        if state.host >= state.broken_from {
            return Err(TchError::Torch("CUDA error: an illegal memory access was encountered".into()));
        }
        Ok(mark.0.is_none_or(|at| at <= state.host))
    }

    fn milliseconds(&self, from: &Mark, to: &Mark) -> Result<f64, TchError> {
        let (Some(from), Some(to)) = (from.0, to.0) else { panic!("a mark was not put") };
        let state = self.0.borrow();
        assert!(from <= to && to <= state.host, "the device has come by both, in this order");
        Ok((to - from) as f64 * state.rate / 1e6)
    }

    fn host_now(&self) -> Nanos {
        Nanos(self.0.borrow().host)
    }

    fn sleep(&self, time: Duration) {
        assert!(time > Duration::ZERO, "the host gives its core away");
        let mut state = self.0.borrow_mut();
        state.host += u64::try_from(time.as_nanos()).expect("a short time");
        let now = state.host;
        let due = state.meanwhile.take_if(|(at, _)| *at <= now);
        drop(state);
        if let Some((_, act)) = due {
            act();
        }
    }
}
