//! A device of which a test decides how long everything takes, on a clock that the test lets go on.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, time::Duration};

use schema::units::Nanos;
use tch::TchError;

use super::{
    Clock,
    device::{DeviceClock, Stream},
};

/// Handles on one device.
#[derive(Clone)]
pub(crate) struct Scripted(Rc<RefCell<State>>);

struct State {
    /// The host's clock. It moves when a test says so, and while the host sleeps.
    host: u64,
    /// How long the device will work on what stands before each of the next marks; nothing where none is left.
    work: VecDeque<u64>,
    /// When the device will be through with what is queued.
    through: u64,
    /// What the device's clock counts while the host's counts one.
    rate: f64,
    /// From then on the device reports an error.
    broken_from: u64,
    marks_made: usize,
    /// What others do when the host's clock shows so many nanoseconds, if the host sleeps then.
    meanwhile: Option<(u64, Box<dyn FnOnce()>)>,
}

/// Comes by at so many nanoseconds of the host's clock.
pub(crate) struct Mark(Option<u64>);

impl Scripted {
    /// A device whose host's clock begins at `host` nanoseconds.
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

    /// What stands before the marks that are put from here on takes so many nanoseconds.
    pub(crate) fn will_work(&self, nanoseconds: &[u64]) {
        self.0.borrow_mut().work.extend(nanoseconds);
    }

    /// The host is busy with something else until its clock shows `host`.
    pub(crate) fn let_it_be(&self, host: u64) {
        self.0.borrow_mut().host = host;
    }

    pub(crate) fn set_rate(&self, rate: f64) {
        self.0.borrow_mut().rate = rate;
    }

    pub(crate) fn break_from(&self, host: u64) {
        self.0.borrow_mut().broken_from = host;
    }

    /// Somebody else acts when the host's clock shows `host`, if the host sleeps then.
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
