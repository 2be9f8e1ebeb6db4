//! Warnings about rows. Each gate compares the data of a launch with a bound of [`warnings`].

use jobs::cells::joined;
use record::{
    launch_end::LaunchEnd,
    rows::{DeviceSample, HostSample, Tier, Warning},
    steps::JobStep,
};
use rig::{StepPattern, device};
use schema::{
    device::Device,
    spec::LaunchSpec,
    units::Nanos,
    wire::{Event, EventLine, Timing},
};
use statistics::{Bursts, interval::MIN_STEPS, steady::Class};

use super::devices;
use crate::{
    warnings,
    window::{Window, growth_in, longest_gap},
};

/// The share of steps, one in twenty, up to which steps that are seen together are explained by the timing of reads. More of
/// them mean a buffer.
const BUFFERED_ONE_IN: usize = 20;

/// A warning, and its description with numbers.
type Found = (Warning, String);

/// Cores of the host that a launch shares with another launch of its group, or that its ranks share with each other. Cores that
/// are the devices of two launches do not count.
pub(super) fn of_cores(own: &LaunchSpec, others: &[&LaunchSpec]) -> Option<Found> {
    fn bound_to(spec: &LaunchSpec) -> &[Device] {
        if spec.host_cores.is_empty() { &spec.devices } else { &spec.host_cores }
    }
    let are_devices = |other: &LaunchSpec| own.host_cores.is_empty() && other.host_cores.is_empty();
    let shares = |set: &Device, others: &[Device]| others.iter().any(|other| other.shares_with(set));
    let with = |other: &&&LaunchSpec| {
        !are_devices(other) && bound_to(own).iter().any(|set| shares(set, bound_to(other)))
    };
    let sets = bound_to(own);
    let is_shared = |rank: usize| matches!(sets[rank], Device::Cpu(_)) && shares(&sets[rank], &sets[..rank]);
    let among_ranks = (1..sets.len()).any(is_shared);
    let other = match others.iter().find(with) {
        Some(other) => &*other.launch,
        None if among_ranks => "another of its ranks",
        None => return None,
    };
    Some((
        Warning::CoresShared,
        format!("{other} has some of its cores too, which are {}", joined(bound_to(own))),
    ))
}

/// Warnings about the steps of a launch, of which the last `used` count, and about their steady state.
pub(super) fn of_steps(
    steps: &[JobStep],
    used: usize,
    class: Class,
    steps_regex: Option<&str>,
) -> Vec<Found> {
    let mut found = Vec::new();
    if used < MIN_STEPS {
        let text = format!("{used} steady steps, and an interval needs {MIN_STEPS}");
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
            let text = format!("{all} steps are too few to find a steady state");
            found.push((Warning::NotSteady, text));
        }
    }
    // Steps that were seen together share the time in whole nanoseconds. The lengths of others differ by more as a rule.
    let are_together = |pair: &&[JobStep]| pair[0].dur_ns.abs_diff(pair[1].dur_ns) <= 1;
    let together = steps.windows(2).filter(are_together).count();
    let is_scraped = steps.first().is_some_and(|step| step.timing == Timing::Scraped);
    // Steps between two lines share their time, too, if lines have the numbers of steps.
    let is_scraped = is_scraped && !steps_regex.is_some_and(numbers_steps);
    if is_scraped && together * BUFFERED_ONE_IN > steps.len() {
        let text = format!("{together} of {} steps were seen together with the one before", steps.len());
        found.push((Warning::Buffered, text));
    }
    // A step without samples trains nothing, and has no loss.
    let without_loss = steps.iter().filter(|step| step.samples != Some(0) && step.loss.is_none()).count();
    // A worker of Tandem always reports a loss; a hook in another program may not.
    let is_ours = |step: &JobStep| matches!(step.timing, Timing::Host | Timing::DeviceEvent);
    if without_loss > 0 && (without_loss < steps.len() || steps.first().is_some_and(is_ours)) {
        let text = format!("{without_loss} of {} steps have no finite loss", steps.len());
        found.push((Warning::LossNotFinite, text));
    }
    found
}

/// A warning if the median step of a user's program does not have its pace.
pub(super) fn of_pace(spec: &LaunchSpec, step_ns: &[u64]) -> Option<Found> {
    let bursts = Bursts::measure(step_ns).filter(|_| !spec.program.speaks())?;
    if bursts.ratio() <= warnings::BURSTY_FROM {
        return None;
    }
    let Bursts { slow, slow_share, pace_ns, median_ns, period } = bursts;
    let steps = step_ns.len() as f64;
    let period = period.map_or(String::new(), |period| format!(", one in every {period},"));
    // What slow steps take beyond the median, and what all steps take beyond it.
    let of_slow_ns = slow_share * pace_ns * steps - slow as f64 * median_ns;
    let cause = match of_slow_ns >= 0.5 * (pace_ns - median_ns) * steps {
        true => format!("{slow} of {steps} steps{period} take {:.0} % of the time", 100.0 * slow_share),
        false => "its steps vary, and no few of them are the cause".to_owned(),
    };
    let (pace, median) = (Nanos(pace_ns as u64), Nanos(median_ns as u64));
    let text = format!(
        "its pace is {pace} a step, {:.1} times its median step of {median}: {cause}",
        bursts.ratio()
    );
    Some((Warning::Bursty, text))
}

/// Whether a pattern captures the number of the step.
fn numbers_steps(pattern: &str) -> bool {
    StepPattern::parse(pattern).is_ok_and(|pattern| pattern.numbers_steps())
}

/// A warning if the lines of a program that end a step come so rarely beside a busy device that each of them may stand for several steps.
pub(super) fn of_lines(
    spec: &LaunchSpec,
    device_util_percent: Option<f64>,
    step_ns: &[u64],
) -> Option<Found> {
    let pattern = spec.steps_regex.as_deref().filter(|text| !numbers_steps(text))?;
    let busy_percent = device_util_percent.filter(|percent| *percent >= warnings::BUSY_FROM_PERCENT)?;
    let mean = Nanos(step_ns.iter().sum::<u64>().checked_div(step_ns.len() as u64)?);
    let text = || {
        format!(
            "a line matches '{pattern}' every {mean} while the device is busy for {busy_percent:.0} % of the time; does each line end \
             one step?"
        )
    };
    (mean > warnings::SPARSE_FROM).then(|| (Warning::SparseLines, text()))
}

/// The number of times that the ranks' allocators were refused memory, as far as it was certainly in the window.
pub(super) fn of_allocator(ranks: &[Vec<EventLine>], window: Window) -> Option<Found> {
    let of_rank = |events: &Vec<EventLine>| {
        let retries: Vec<(Nanos, u64)> = events
            .iter()
            .filter_map(|line| match &line.event {
                Event::Memory(memory) => Some((line.mono_ns, memory.allocator_retries?)),
                _ => None,
            })
            .collect();
        // A count from before the window may already be in the first reading.
        let before = retries.iter().rfind(|(at, _)| *at <= window.start);
        let inside = || retries.iter().filter(|(at, _)| window.contains(*at));
        let (first, last) = (before.or_else(|| inside().next())?, inside().next_back()?);
        Some(last.1.saturating_sub(first.1))
    };
    let retries = ranks.iter().filter_map(of_rank).fold(0, u64::saturating_add);
    let text = || {
        format!(
            "refusals of device memory in the window: {retries}; each made the allocator give its cache back"
        )
    };
    (retries > 0).then(|| (Warning::AllocatorRetries, text()))
}

/// Layers that did not compute in the precision of the plan.
pub(super) fn of_arithmetic(ranks: &[Vec<EventLine>]) -> Option<Found> {
    let layers = ranks.iter().flatten().find_map(|line| match &line.event {
        Event::Ready(ready) if !ready.fp32_layers.is_empty() => Some(&ready.fp32_layers),
        _ => None,
    })?;
    let text = format!("computed in fp32 because there is no bf16 kernel: {}", layers.join(", "));
    Some((Warning::Fp32Layers, text))
}

/// The time for which a launch ran.
pub(super) fn ran(end: &LaunchEnd) -> Nanos {
    Nanos(end.ranks.iter().filter_map(|rank| rank.wall_ns).max().unwrap_or(0))
}

/// Whether the harness ended a launch. A program may end by itself in the moment in which it is to be ended.
pub(super) fn is_cut(end: &LaunchEnd) -> bool {
    end.enough_mono_ns.is_some() && end.ranks.iter().any(|rank| !rank.by_itself)
}

/// Warnings about a program of the user's. `steps` is the number of its observed steps.
pub(super) fn of_program(spec: &LaunchSpec, end: &LaunchEnd, steps: usize) -> Vec<Found> {
    let mut found = Vec::new();
    if spec.program.speaks() {
        return found;
    }
    let ran = ran(end);
    if steps == 0 && is_cut(end) {
        found.push((Warning::Cut, format!("it was ended after {ran} without a step")));
    }
    if end.notes.ungated {
        let text = "it takes optimizer steps where the grant page of this run cannot be reached, as on another host or in a \
                    container, so they are not seen";
        found.push((Warning::NoHook, text.to_owned()));
    } else if steps == 0 && end.notes.lacks_hook {
        let text = "it has loaded PyTorch without the step hook, so its steps are not seen: Python runs with -E, -I or -S or in an \
                    emptied environment, or the program is not Python";
        found.push((Warning::NoHook, text.to_owned()));
    } else if steps == 0 && end.notes.has_pytorch {
        let text = format!("it has imported PyTorch, and no optimizer step was seen in {ran}");
        found.push((Warning::NoSteps, text));
    }
    if end.notes.unheard > 0 {
        let text = match end.notes.unheard {
            1 => "another process of it takes optimizer steps, which are not counted".to_owned(),
            more => format!("{more} other processes of it take optimizer steps, which are not counted"),
        };
        found.push((Warning::Unheard, text));
    }
    if end.notes.alternating {
        let counted = "its optimizers take turns, and each call of the one that was called first is a step";
        let text = match end.notes.uncounted_calls {
            Some(calls) => format!("{counted}; at least {calls} calls of other optimizers are not counted"),
            None => counted.to_owned(),
        };
        found.push((Warning::Alternating, text));
    }
    found
}

/// A warning if the program did not end on SIGTERM. What it had not saved by then is lost.
pub(super) fn of_end(spec: &LaunchSpec, end: &LaunchEnd) -> Option<Found> {
    let grace = end.killed_after.filter(|_| !spec.program.speaks())?;
    Some((Warning::Killed, format!("it did not end within {grace} of SIGTERM, and was killed")))
}

/// A warning if the user's command after the program failed, with what it has left undone.
pub(super) fn of_cleanup(end: &LaunchEnd) -> Option<Found> {
    let how = end.notes.cleanup_failed.as_ref()?;
    Some((Warning::Cleanup, format!("the command of --cleanup {how}")))
}

/// A warning if readings of the processes of a launch that ended at `ended` lack some of them, so that their memory is not known.
pub(super) fn of_processes(readings: &[HostSample], ended: Nanos) -> Option<Found> {
    let readings = &readings[..readings.partition_point(|row| row.mono_ns <= ended)];
    let lacking: Vec<&HostSample> = readings.iter().filter(|row| row.rss_bytes.is_none()).collect();
    let why = lacking.last()?.err.as_deref().unwrap_or("no reason is given");
    let text =
        format!("{} of {} readings of its processes lack some, last: {why}", lacking.len(), readings.len());
    Some((Warning::Unread, text))
}

/// A warning if a CPU quota stopped processes in the window.
pub(super) fn of_quota(periods: Option<u64>) -> Option<Found> {
    let periods = periods.filter(|periods| *periods > 0)?;
    Some((Warning::Throttled, format!("a CPU quota of its cgroup stopped it in {periods} periods")))
}

/// A warning if programs of others used the cores of some devices. `own_cpu_ns` is the CPU time of all jobs of the run on these devices. It
/// is known of all devices together: how the ranks of a job divide theirs is not.
pub(super) fn of_others(
    devices: &[(String, Vec<&DeviceSample>)],
    own_cpu_ns: u64,
    windows: &[Window],
) -> Option<Found> {
    let length: Nanos = windows.iter().map(Window::length).sum();
    let busy = |rows: &[&DeviceSample]| {
        let readings = rows.iter().filter_map(|row| Some((row.mono_ns, row.busy_ns?)));
        growth_in(readings, Nanos::ZERO, windows).map(|ns| ns as f64)
    };
    let busy: Option<f64> = devices.iter().map(|(_, rows)| busy(rows)).sum();
    let cores: f64 = devices.iter().map(|(name, _)| cores(name)).sum();
    let percent = 100.0 * (busy? - own_cpu_ns as f64) / (length.0 as f64 * cores).max(1.0);
    let names = || devices.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(",");
    (percent > warnings::FOREIGN_PERCENT)
        .then(|| (Warning::Foreign, format!("other programs used {percent:.1} % of {}", names())))
}

/// Warnings from the readings of one device.
pub(super) fn of_device(name: &str, rows: &[&DeviceSample], windows: &[Window]) -> Vec<Found> {
    let mut found = Vec::new();
    let length: Nanos = windows.iter().map(Window::length).sum();
    let capacity_ns = length.0 as f64 * cores(name);
    let percent = |ns: f64| 100.0 * ns / capacity_ns.max(1.0);
    let grown = |value: fn(&DeviceSample) -> Option<u64>| -> Option<f64> {
        let readings = rows.iter().filter_map(|row| Some((row.mono_ns, value(row)?)));
        growth_in(readings, Nanos::ZERO, windows).map(|ns| ns as f64)
    };
    let throttled = grown(|row| row.throttle_ns).map(percent);
    if let Some(throttled) = throttled.filter(|p| *p > warnings::THROTTLED_PERCENT) {
        let text = format!("{name} ran below its clock for {throttled:.1} % of the time");
        found.push((Warning::Throttled, text));
    }
    if let Some(stolen) = grown(|row| row.steal_ns).map(percent).filter(|p| *p > warnings::STEAL_PERCENT) {
        found.push((Warning::Steal, format!("the hypervisor took {stolen:.1} % of {name} away")));
    }
    found.extend(Tier::ALL.iter().filter_map(|&tier| of_tier(name, rows, tier, windows)));
    if let Some(gap) = devices::unread_pcie(rows, windows) {
        let text = format!(
            "the PCIe counters of {name} were not read for {gap} and may have wrapped more than once, so their bytes are not known"
        );
        found.push((Warning::Unread, text));
    }
    let is_inside = |at: Nanos| windows.iter().any(|window| window.contains(at));
    let inside = || rows.iter().filter(|row| is_inside(row.mono_ns));
    if let Some(others) = inside().filter_map(|row| row.foreign_processes).max().filter(|n| *n > 0) {
        found.push((Warning::Foreign, format!("{others} other processes use {name}")));
    }
    let is_lost = |err: &&String| err.starts_with(device::LOST);
    if let Some(lost) = inside().filter_map(|row| row.err.as_ref()).find(is_lost) {
        found.push((Warning::DeviceLost, format!("{name}: {lost}")));
    } else {
        found.extend(Tier::ALL.iter().filter_map(|&tier| {
            of_failures(name, tier, &inside().copied().filter(|row| row.tier == tier).collect::<Vec<_>>())
        }));
    }
    found
}

/// A warning if a tier was read too rarely. Every device has a fast tier; other tiers count only if they were ever read.
fn of_tier(name: &str, rows: &[&DeviceSample], tier: Tier, windows: &[Window]) -> Option<Found> {
    let of_it = || rows.iter().filter(|row| row.tier == tier).map(|row| (row.mono_ns, row.end_mono_ns));
    let is_offered = tier == Tier::Fast || of_it().next().is_some();
    let gap_s = windows.iter().map(|window| longest_gap(of_it(), *window)).max()?.as_secs_f64();
    let text = || format!("the {tier} tier of {name} was not read for {gap_s:.1} s");
    (is_offered && gap_s > warnings::longest_gap_s(tier)).then(|| (Warning::SamplerLate, text()))
}

/// A warning if many of a tier's readings lack values.
fn of_failures(name: &str, tier: Tier, rows: &[&DeviceSample]) -> Option<Found> {
    let failed: Vec<&String> = rows.iter().filter_map(|row| row.err.as_ref()).collect();
    let text = |last: &String| {
        format!(
            "{} of {} readings of the {tier} tier of {name} lack something, last: {last}",
            failed.len(),
            rows.len()
        )
    };
    let share = 100.0 * failed.len() as f64 / rows.len().max(1) as f64;
    failed.last().filter(|_| share > warnings::UNREAD_PERCENT).map(|last| (Warning::Unread, text(last)))
}

/// The number of cores of a device; 1 for a GPU, whose counters run once.
fn cores(device: &str) -> f64 {
    match device.parse() {
        Ok(Device::Cpu(cores)) => cores.len() as f64,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use schema::{spec::Program, wire::Memory};

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

    /// A second of readings every `period_ms`, from `from_ms` on.
    fn readings(tier: Tier, from_ms: u64, until_ms: u64, period_ms: u64) -> Vec<DeviceSample> {
        let times = (from_ms..until_ms).step_by(period_ms as usize);
        times.map(|at| device::empty_sample(&Device::Cuda(0), tier, Nanos(1_000_000 * at))).collect()
    }

    fn of_gpu(parts: &[Vec<DeviceSample>]) -> Vec<Found> {
        let mut rows: Vec<&DeviceSample> = parts.iter().flatten().collect();
        rows.sort_by_key(|row| row.mono_ns);
        of_device("cuda:0", &rows, &[Window { start: Nanos(1_000_000_000), end: Nanos(9_000_000_000) }])
    }

    #[test]
    fn each_tier_answers_for_its_own_readings() {
        let whole = |tier, period_ms| readings(tier, 0, 10_000, period_ms);
        assert_eq!(of_gpu(&[whole(Tier::Fast, 40), whole(Tier::Gpm, 200), whole(Tier::Slow, 1_000)]), []);
        let broken = |tier, until, from, period_ms| {
            [readings(tier, 0, until, period_ms), readings(tier, from, 10_000, period_ms)].concat()
        };
        let late = |tier: Tier, gap: &str| {
            [(Warning::SamplerLate, format!("the {tier} tier of cuda:0 was not read for {gap} s"))]
        };
        // The other tiers are read all the time, which makes up for nothing.
        let fast = broken(Tier::Fast, 4_000, 5_480, 40);
        assert_eq!(of_gpu(&[fast, whole(Tier::Gpm, 200), whole(Tier::Slow, 200)]), late(Tier::Fast, "1.5"));
        let slow = broken(Tier::Slow, 3_000, 7_000, 1_000);
        assert_eq!(of_gpu(&[whole(Tier::Fast, 40), slow]), late(Tier::Slow, "5.0"));
    }

    #[test]
    fn readings_that_lack_something_are_told_with_the_last_reason() {
        let failing = |failures: usize| {
            let mut fast = readings(Tier::Fast, 0, 10_000, 10);
            for row in &mut fast[300..300 + failures] {
                row.err = Some("energy_mj: not allowed".into());
            }
            of_gpu(&[fast, readings(Tier::Slow, 0, 10_000, 1_000)])
        };
        assert_eq!(failing(8), [], "a passing failure of one in a hundred");
        let text =
            "9 of 801 readings of the fast tier of cuda:0 lack something, last: energy_mj: not allowed";
        assert_eq!(failing(9), [(Warning::Unread, text.into())]);
    }

    #[test]
    fn cores_of_the_host_are_told_of_where_two_have_them() {
        let spec = |name: &str, devices: &[&str], host_cores: &[&str]| {
            let parsed = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
            let program = Program::Command(Vec::new());
            let new = LaunchSpec::new(name, name, program, parsed(devices));
            LaunchSpec { host_cores: parsed(host_cores), ..new }
        };
        let own = spec("own", &["cuda:0"], &["cpu:0-1"]);
        let (apart, beside) =
            (spec("apart", &["cuda:0"], &["cpu:2"]), spec("beside", &["cuda:0"], &["cpu:1-2"]));
        let (two, on_core) =
            (spec("two", &["cuda:0"; 2], &["cpu:0", "cpu:0"]), spec("core", &["cpu:1"], &[]));
        let (unbound, gpu) = (spec("unbound", &["cuda:1"], &[]), spec("gpu", &["cuda:0"; 2], &[]));
        let turns = spec("turns", &["cpu:0", "cpu:1", "cpu:0", "cpu:1"], &[]);
        for (own, others, expected) in [
            (&own, &[][..], None),
            (&own, &[&apart, &unbound], None),
            (&own, &[&apart, &beside], Some("beside has some of its cores too, which are cpu:0-1")),
            (&own, &[&on_core], Some("core has some of its cores too, which are cpu:0-1")),
            (&on_core, &[&own], Some("own has some of its cores too, which are cpu:1")),
            (&on_core, &[&on_core], None),
            (&two, &[], Some("another of its ranks has some of its cores too, which are cpu:0,cpu:0")),
            (
                &turns,
                &[],
                Some("another of its ranks has some of its cores too, which are cpu:0,cpu:1,cpu:0,cpu:1"),
            ),
            (&gpu, &[], None),
        ] {
            let found = of_cores(own, others).map(|(_, text)| text);
            assert_eq!(found.as_deref(), expected, "{} beside {others:?}", own.launch);
        }
    }

    fn steps(timing: Timing, losses: &[Option<f64>]) -> Vec<JobStep> {
        let step = |(i, &loss): (usize, &Option<f64>)| JobStep {
            index: i as u64,
            end: Nanos(i as u64),
            dur_ns: 1,
            stages: Vec::new(),
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
            let found = of_steps(&steps(Timing::Host, &[Some(1.0); 40]), used, class, None);
            let found: Vec<Warning> = found.into_iter().map(|(warning, _)| warning).collect();
            assert_eq!(found, expected, "{used} steps, {class:?}");
        }
    }

    #[test]
    fn a_worker_of_ours_that_has_no_loss_diverged_and_a_hook_may_just_not_read_it() {
        let warns = |timing, losses: &[Option<f64>]| {
            let found = of_steps(&steps(timing, losses), MIN_STEPS, Class::Flat, None);
            found.iter().any(|(warning, _)| *warning == Warning::LossNotFinite)
        };
        for timing in [Timing::Host, Timing::DeviceEvent] {
            assert!(warns(timing, &[None, None]) && !warns(timing, &[Some(1.0), Some(2.0)]), "{timing:?}");
        }
        assert!(!warns(Timing::Hook, &[None, None]));
        assert!(warns(Timing::Hook, &[Some(1.0), None]), "it read one and not the other");
    }
}
