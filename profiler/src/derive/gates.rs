//! What makes a row doubtful. Each gate compares what a launch left with a bound of [`warnings`].

use schema::{
    device::Device,
    rows::{DeviceSample, Warning},
    units::Nanos,
    wire::{Event, EventLine, Timing},
};
use statistics::{interval::MIN_STEPS, steady::Class};

use super::JobStep;
use crate::{
    device, warnings,
    window::{Window, growth_in},
};

/// So many lines that come together are the chance of two looks and not a buffer's doing: one in twenty.
const BUFFERED_ONE_IN: usize = 20;

/// What was found, in words and numbers.
type Found = (Warning, String);

/// The steps of a launch, of which the last `used` count, and how they came to be those.
pub(super) fn of_steps(steps: &[JobStep], used: usize, class: Class) -> Vec<Found> {
    let mut found = Vec::new();
    if used < MIN_STEPS {
        let text = format!("{used} steady steps, and an interval takes {MIN_STEPS}");
        found.push((Warning::FewSteps, text));
    }
    let all = steps.len();
    match class {
        Class::Flat | Class::WarmUp => {}
        Class::Slowdown => {
            let text = format!("steps before the last {used} of {all} were faster for a while");
            found.push((Warning::SlowedDown, text));
        }
        Class::NoSteadyState => {
            let text = format!("no level holds for the last half of {all} steps");
            found.push((Warning::NotSteady, text));
        }
        Class::TooShort => {
            let text = format!("{all} steps are too few to find a steady state in");
            found.push((Warning::NotSteady, text));
        }
    }
    let together = steps.windows(2).filter(|pair| pair[0].end == pair[1].end).count();
    let is_scraped = steps.first().is_some_and(|step| step.timing == Timing::Scraped);
    if is_scraped && together * BUFFERED_ONE_IN > steps.len() {
        let text = format!("{together} of {} steps were seen together with the one before", steps.len());
        found.push((Warning::Buffered, text));
    }
    // A step without samples trains nothing, and has no loss to say.
    let without_loss = steps.iter().filter(|step| step.samples != Some(0) && step.loss.is_none()).count();
    // A worker of ours always reads its loss; a hook in another program may not.
    let is_ours = |step: &JobStep| matches!(step.timing, Timing::Host | Timing::DeviceEvent);
    if without_loss > 0 && (without_loss < steps.len() || steps.first().is_some_and(is_ours)) {
        let text = format!("{without_loss} of {} steps have no finite loss", steps.len());
        found.push((Warning::LossNotFinite, text));
    }
    found
}

/// How often the ranks' allocators were refused memory, as far as it surely was within the window.
pub(super) fn of_allocator(ranks: &[Vec<EventLine>], window: Window) -> Option<Found> {
    let of_rank = |events: &Vec<EventLine>| {
        let retries: Vec<(Nanos, u64)> = events
            .iter()
            .filter_map(|line| match &line.event {
                Event::Memory(memory) => Some((line.mono_ns, memory.allocator_retries?)),
                _ => None,
            })
            .collect();
        // What was counted before the window may have come with its first reading.
        let before = retries.iter().rfind(|(at, _)| *at <= window.start);
        let inside = || retries.iter().filter(|(at, _)| window.contains(*at));
        let (first, last) = (before.or_else(|| inside().next())?, inside().next_back()?);
        Some(last.1.saturating_sub(first.1))
    };
    let retries: u64 = ranks.iter().filter_map(of_rank).sum();
    let text = || {
        format!(
            "refusals of device memory in the window: {retries}; each made the allocator give its cache back"
        )
    };
    (retries > 0).then(|| (Warning::AllocatorRetries, text()))
}

/// The readings of one device. `own_cpu_ns` is the CPU time of all jobs of the run on it, where that is known.
pub(super) fn of_device(
    name: &str,
    rows: &[&DeviceSample],
    own_cpu_ns: Option<u64>,
    windows: &[Window],
) -> Vec<Found> {
    let mut found = Vec::new();
    let length: Nanos = windows.iter().map(Window::length).sum();
    let capacity_ns = length.0 as f64 * cores(name);
    let percent = |ns: f64| 100.0 * ns / capacity_ns.max(1.0);
    let grown = |value: fn(&DeviceSample) -> Option<u64>| -> Option<f64> {
        growth_in(rows.iter().filter_map(|row| Some((row.mono_ns, value(row)?))), windows).map(|ns| ns as f64)
    };
    let throttled = grown(|row| row.throttle_ns).map(percent);
    if let Some(throttled) = throttled.filter(|p| *p > warnings::THROTTLED_PERCENT) {
        let text = format!("{name} ran below its clock for {throttled:.1} % of the time");
        found.push((Warning::Throttled, text));
    }
    if let Some(stolen) = grown(|row| row.steal_ns).map(percent).filter(|p| *p > warnings::STEAL_PERCENT) {
        found.push((Warning::Steal, format!("the hypervisor took {stolen:.1} % of {name} away")));
    }
    if let (Some(busy), Some(own)) = (grown(|row| row.busy_ns), own_cpu_ns) {
        let foreign = percent(busy - own as f64);
        if foreign > warnings::FOREIGN_PERCENT {
            found.push((Warning::Foreign, format!("other programs used {foreign:.1} % of {name}")));
        }
    }
    let gap = windows.iter().map(|window| longest_gap_s(rows, *window)).fold(0.0, f64::max);
    if gap > warnings::LONGEST_GAP_S {
        found.push((Warning::SamplerLate, format!("{name} was not read for {gap:.1} s")));
    }
    let is_inside = |at: Nanos| windows.iter().any(|window| window.contains(at));
    let inside = || rows.iter().filter(|row| is_inside(row.mono_ns));
    if let Some(others) = inside().filter_map(|row| row.foreign_processes).max().filter(|n| *n > 0) {
        found.push((Warning::Foreign, format!("{others} other processes use {name}")));
    }
    let is_lost = |err: &&String| err.starts_with(device::LOST);
    if let Some(lost) = inside().filter_map(|row| row.err.as_ref()).find(is_lost) {
        found.push((Warning::DeviceLost, format!("{name}: {lost}")));
    }
    found
}

/// The longest time between two readings, or between one and an end of the window.
fn longest_gap_s(rows: &[&DeviceSample], window: Window) -> f64 {
    let seen = rows.iter().map(|row| row.mono_ns).filter(|t| window.contains(*t));
    let times: Vec<Nanos> = [window.start].into_iter().chain(seen).chain([window.end]).collect();
    let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).as_secs_f64());
    gaps.fold(0.0, f64::max)
}

/// Cores that a device name stands for; one for a GPU, whose counters run once.
fn cores(device: &str) -> f64 {
    match device.parse() {
        Ok(Device::Cpu(cores)) => cores.len() as f64,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use schema::wire::{Memory, Phases};

    use super::*;

    const WINDOW: Window = Window { start: Nanos(100), end: Nanos(200) };

    fn memory(at: u64, allocator_retries: Option<u64>) -> EventLine {
        let (reserved_bytes, host_bytes) = (Some(1), None);
        let memory =
            Memory { allocated_bytes: 1, reserved_bytes, peak_bytes: 1, host_bytes, allocator_retries };
        EventLine { seq: 0, rank: 0, mono_ns: Nanos(at), event: Event::Memory(memory) }
    }

    fn rank(retries: &[(u64, u64)]) -> Vec<EventLine> {
        retries.iter().map(|&(at, retries)| memory(at, Some(retries))).collect()
    }

    #[test]
    fn retries_of_the_allocator_count_within_the_window() {
        let counted = |ranks: &[Vec<EventLine>]| of_allocator(ranks, WINDOW).map(|(_, text)| text);
        for (retries, text) in [
            (&[(50, 2), (90, 3), (150, 4), (190, 8), (250, 20)][..], Some("window: 5;")),
            // Those of the warm-up are no fault of the window, whether told before it or in it.
            (&[(50, 3), (150, 3)], None),
            (&[(150, 3), (190, 3)], None),
            (&[(150, 3), (190, 4)], Some("window: 1;")),
            (&[(50, 3), (250, 9)], None),
        ] {
            let found = counted(&[rank(retries)]);
            let is_right = match (&found, text) {
                (Some(found), Some(text)) => found.contains(text),
                (found, text) => found.is_none() && text.is_none(),
            };
            assert!(is_right, "{retries:?}: {found:?}");
        }
        assert!(counted(&[vec![memory(90, None), memory(150, None)], vec![]]).is_none());
        let two = [rank(&[(90, 0), (150, 1)]), rank(&[(90, 0), (150, 2)])];
        assert!(counted(&two).is_some_and(|text| text.contains("window: 3;")), "ranks add up");
    }

    fn steps(timing: Timing, losses: &[Option<f64>]) -> Vec<JobStep> {
        let step = |(i, &loss): (usize, &Option<f64>)| JobStep {
            index: i as u64,
            end: Nanos(i as u64),
            dur_ns: 1,
            phases: Phases::default(),
            samples: Some(1),
            sent_bytes: None,
            loss,
            timing,
        };
        losses.iter().enumerate().map(step).collect()
    }

    #[test]
    fn each_thing_that_is_doubtful_of_a_window_is_said() {
        use Warning::{FewSteps, NotSteady, SlowedDown};
        for (used, class, expected) in [
            (MIN_STEPS, Class::Flat, &[][..]),
            (MIN_STEPS, Class::WarmUp, &[]),
            (MIN_STEPS, Class::Slowdown, &[SlowedDown]),
            (MIN_STEPS, Class::NoSteadyState, &[NotSteady]),
            (MIN_STEPS - 1, Class::WarmUp, &[FewSteps]),
            (MIN_STEPS - 1, Class::Slowdown, &[FewSteps, SlowedDown]),
            (MIN_STEPS - 1, Class::NoSteadyState, &[FewSteps, NotSteady]),
            (9, Class::TooShort, &[FewSteps, NotSteady]),
        ] {
            let found = of_steps(&steps(Timing::Host, &[Some(1.0); 40]), used, class);
            let found: Vec<Warning> = found.into_iter().map(|(warning, _)| warning).collect();
            assert_eq!(found, expected, "{used} steps, {class:?}");
        }
    }

    #[test]
    fn a_worker_of_ours_that_has_no_loss_diverged_and_a_hook_may_just_not_read_it() {
        let warns = |timing, losses: &[Option<f64>]| {
            let found = of_steps(&steps(timing, losses), MIN_STEPS, Class::Flat);
            found.iter().any(|(warning, _)| *warning == Warning::LossNotFinite)
        };
        for timing in [Timing::Host, Timing::DeviceEvent] {
            assert!(warns(timing, &[None, None]) && !warns(timing, &[Some(1.0), Some(2.0)]), "{timing:?}");
        }
        assert!(!warns(Timing::Hook, &[None, None]));
        assert!(warns(Timing::Hook, &[Some(1.0), None]), "it read one and not the other");
    }
}
