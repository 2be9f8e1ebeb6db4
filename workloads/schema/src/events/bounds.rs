//! Checks that the values of an event are possible.

use crate::{
    units::{HumanBytes, Nanos},
    wire::{Event, EventLine, Memory, Phases, Ready, Step, Timing},
};

/// The longest delay between the end of a step and its stamp, because the process may have had no core.
const STAMPED_WITHIN: Nanos = Nanos::SECOND;
/// A device's clock may be faster than the host's by this fraction of a step.
const CLOCKS_DIFFER_ONE_IN: u64 = 64;
/// The number of nanoseconds in a hundred days. What is added to such a count of steps stays in range.
const MOST_STEPS: u64 = 1 << 53;
/// Batches are counted in 32 bits.
const MOST_SAMPLES: u64 = u32::MAX as u64;
/// A pebibyte. Sums over the steps of a launch stay in range.
const MOST_BYTES: u64 = 1 << 50;
/// A hundred years.
const LONGEST: Nanos = Nanos(100 * 366 * 24 * 3_600 * Nanos::SECOND.0);

/// Checks the events of one rank against each other.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// The earliest possible start of the next reported step; absent before the first event.
    free_from: Option<Nanos>,
    /// The index after the last reported step.
    steps: u64,
    last_end: Nanos,
}

impl Bounds {
    /// # Errors
    /// Returns the reason why the event is impossible.
    pub(super) fn check(&mut self, line: &EventLine) -> Result<(), String> {
        let stamped_late = line.mono_ns.saturating_sub(STAMPED_WITHIN);
        let free_from = *self.free_from.get_or_insert(stamped_late);
        match &line.event {
            Event::Step(step) => {
                within(step)?;
                self.follows(step, line.mono_ns, free_from)?;
                let free_from = Nanos(free_from.0.saturating_add(surely(step.dur_ns).0));
                // Steps whose lines are seen together have one stamp, and share all of the time since the one before it.
                let is_shared = step.timing == Timing::Scraped;
                self.free_from = Some(if is_shared { free_from } else { free_from.max(stamped_late) });
                self.last_end = line.mono_ns;
                self.steps = step.index.saturating_add(1);
                Ok(())
            }
            Event::Ready(Ready {
                model_bytes, optimizer_bytes, peak_bytes, startup_ns, restore_ns, ..
            }) => {
                bytes("model_bytes", *model_bytes)?;
                bytes("optimizer_bytes", *optimizer_bytes)?;
                bytes("peak_bytes", *peak_bytes)?;
                time("startup_ns", Some(*startup_ns))?;
                time("restore_ns", *restore_ns)
            }
            Event::Memory(Memory { allocated_bytes, reserved_bytes, peak_bytes, host_bytes, .. }) => {
                bytes("allocated_bytes", Some(*allocated_bytes))?;
                bytes("reserved_bytes", *reserved_bytes)?;
                bytes("peak_bytes", Some(*peak_bytes))?;
                bytes("host_bytes", *host_bytes)
            }
            Event::Paused { dur_ns, .. } | Event::Resumed { dur_ns } | Event::Checkpointed { dur_ns, .. } => {
                time("dur_ns", Some(*dur_ns))
            }
            Event::Held { index } => steps("index", *index),
            Event::Finished { steps: count, .. } => steps("steps", *count),
            Event::Hello(_) | Event::Refused { .. } | Event::Failed { .. } => Ok(()),
        }
    }

    /// Checks the step against the one before it.
    fn follows(&self, step: &Step, end: Nanos, free_from: Nanos) -> Result<(), String> {
        // For a user's program not every start of a step is known, and steps without one have no event.
        let may_skip = matches!(step.timing, Timing::Hook | Timing::HookDeviceEvent | Timing::Scraped);
        if step.index < self.steps || step.index > self.steps && !may_skip {
            return Err(format!("index {}, where step {} comes next", step.index, self.steps));
        }
        if end < self.last_end {
            return Err(format!("the step ends at {} ns, before the one before it", end.0));
        }
        let most = end.saturating_sub(free_from);
        if surely(step.dur_ns) > most {
            return Err(format!(
                "dur_ns is {}, and at most {} have passed since the step before it",
                step.dur_ns, most
            ));
        }
        Ok(())
    }
}

/// The minimum duration of a step by the host's clock.
fn surely(dur_ns: Nanos) -> Nanos {
    Nanos(dur_ns.0 - dur_ns.0 / CLOCKS_DIFFER_ONE_IN)
}

/// Checks the values of a step.
fn within(step: &Step) -> Result<(), String> {
    // The host's clock advances between two readings. A GPU's clock has a resolution of half a microsecond,
    // which may hold two events of a user's program. Lines of output that arrive together share the time
    // since the previous ones, which may be less than a nanosecond each.
    let is_coarse = matches!(step.timing, Timing::HookDeviceEvent | Timing::Scraped);
    if step.dur_ns == Nanos::ZERO && !is_coarse {
        return Err("dur_ns is 0, and no step takes no time".into());
    }
    steps("index", step.index)?;
    time("dur_ns", Some(step.dur_ns))?;
    if let Some(samples) = step.samples.filter(|samples| *samples > MOST_SAMPLES) {
        return Err(format!("samples is {samples}, and no batch has more than {MOST_SAMPLES}"));
    }
    bytes("sent_bytes", step.sent_bytes)?;
    for (name, phase) in step.phases.iter().flat_map(Phases::named) {
        time(name, phase)?;
    }
    Ok(())
}

fn steps(name: &str, value: u64) -> Result<(), String> {
    if value > MOST_STEPS {
        return Err(format!("{name} is {value}, and no launch takes more than {MOST_STEPS} steps"));
    }
    Ok(())
}

fn time(name: &str, value: Option<Nanos>) -> Result<(), String> {
    match value.filter(|value| *value > LONGEST) {
        Some(Nanos(value)) => Err(format!("{name} is {value}, which is more than a hundred years")),
        None => Ok(()),
    }
}

fn bytes(name: &str, value: Option<u64>) -> Result<(), String> {
    match value.filter(|value| *value > MOST_BYTES) {
        Some(value) => Err(format!("{name} is {value}, which is more than {}", HumanBytes(MOST_BYTES))),
        None => Ok(()),
    }
}
