//! `trace.json`: steps of launches with their phases, and readings of devices and of memory on one time line, for Perfetto.

use std::collections::BTreeMap;

use record::{
    rows::{self, DeviceSample, HostSample},
    run_dir::RunDir,
    steps::read_each,
    trace_events::TraceWriter,
};
use schema::{
    events::EventError,
    units::Nanos,
    wire::{Event, Phases, Step},
};

/// The first track of devices. The tracks of launches are numbered from 1.
const FIRST_DEVICE_TRACK: u64 = 1_000_000;

pub(super) fn write(run: &RunDir) -> anyhow::Result<()> {
    let samples: Vec<DeviceSample> = rows::read_appended(&run.devices_path())?;
    let origin = samples.first().map_or(Nanos::ZERO, |row| row.mono_ns);
    let mut trace = TraceWriter::create(&run.trace_path(), origin)?;
    let mut tracks = BTreeMap::new();
    for (i, launch) in run.launches()?.iter().enumerate() {
        let spec = run.spec(launch)?;
        // PyTorch's profiler made its steps longer, and has a trace of them.
        if spec.operators.is_some() {
            continue;
        }
        let track = i as u64 + 1;
        trace.name_process(track, launch)?;
        tracks.insert(launch.clone(), track);
        for rank in 0..run.ranks(&spec) {
            write_steps(run, &mut trace, launch, track, rank, origin)?;
        }
    }
    write_devices(&mut trace, &samples)?;
    write_memory(&mut trace, origin, &rows::read_appended(&run.host_path())?, &tracks)?;
    Ok(trace.finish()?)
}

fn write_steps(
    run: &RunDir,
    trace: &mut TraceWriter,
    launch: &str,
    track: u64,
    rank: u32,
    origin: Nanos,
) -> anyhow::Result<()> {
    let mut written = Ok(());
    // The row of the launch has the error of a file that is invalid.
    let _: Result<(), EventError> = read_each(&run.events_path(launch, rank), rank, |line| {
        let Event::Step(step) = &line.event else { return };
        // The time line begins with the first reading of a device. Steps before it would be drawn one on another.
        let start = line.mono_ns.saturating_sub(step.dur_ns).max(origin);
        if line.mono_ns > origin && written.is_ok() {
            let span = (start, line.mono_ns - start);
            let name = format!("step {}", step.index);
            let track = (track, u64::from(rank));
            written = trace.span(track, name, span, arguments(step));
            // The phases of a step that began before the first reading are not drawn: their positions are unknown.
            if start > origin && written.is_ok() {
                written = write_phases(trace, track, span, step.phases.as_ref());
            }
        }
    });
    Ok(written?)
}

/// Draws the phases of a step one after another in the order in which they begin. Only their lengths are recorded: where one of them
/// occurs several times, as with accumulated gradients, its parts are drawn as one.
fn write_phases(
    trace: &mut TraceWriter,
    track: (u64, u64),
    (start, length): (Nanos, Nanos),
    phases: Option<&Phases>,
) -> std::io::Result<()> {
    let (mut at, end) = (start, start + length);
    for (name, phase) in phases.into_iter().flat_map(in_order) {
        // Clocks of devices and of the host differ a little. No phase goes on after its step.
        let Some(drawn) = phase.map(|ns| ns.min(end.saturating_sub(at))).filter(|ns| *ns > Nanos::ZERO)
        else {
            continue;
        };
        trace.span(track, name.into(), (at, drawn), [("ns", phase.map(|ns| ns.0 as f64))])?;
        at += drawn;
    }
    Ok(())
}

/// The phases that exclude each other, in the order in which they begin.
fn in_order(phases: &Phases) -> [(&'static str, Option<Nanos>); 9] {
    [
        ("data", phases.data_ns),
        ("gather", phases.gather_ns),
        ("forward", phases.forward_ns),
        ("tensor", phases.tensor_ns),
        ("pipeline", phases.pipeline_ns),
        ("backward", phases.backward_ns),
        ("sync_exposed", phases.sync_exposed_ns),
        ("offload", phases.offload_ns),
        ("optimizer", phases.optimizer_ns),
    ]
}

/// The values that are shown for a selected step.
fn arguments(step: &Step) -> impl Iterator<Item = (&'static str, Option<f64>)> {
    let phases = step.phases.iter().flat_map(Phases::named);
    [("samples", step.samples.map(|samples| samples as f64)), ("loss", step.loss)]
        .into_iter()
        .chain(phases.map(|(name, phase)| (name, phase.map(|ns| ns.0 as f64))))
}

fn write_devices(trace: &mut TraceWriter, samples: &[DeviceSample]) -> anyhow::Result<()> {
    let mut devices: Vec<&str> = samples.iter().map(|row| row.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    for (i, device) in devices.iter().enumerate() {
        let track = FIRST_DEVICE_TRACK + i as u64;
        trace.name_process(track, device)?;
        for row in samples.iter().filter(|row| row.device == *device) {
            for (name, value) in [
                ("util_percent", row.util_percent),
                ("memory_used_bytes", row.memory_used_bytes.map(|bytes| bytes as f64)),
                ("power_mw", row.power_mw.map(|power| power as f64)),
                ("sm_util_percent", row.sm_util_percent),
            ] {
                if let Some(value) = value {
                    trace.counter(track, name, row.mono_ns, value)?;
                }
            }
        }
    }
    Ok(())
}

/// The memory of the processes of each rank, on the track of its launch.
fn write_memory(
    trace: &mut TraceWriter,
    origin: Nanos,
    samples: &[HostSample],
    tracks: &BTreeMap<String, u64>,
) -> anyhow::Result<()> {
    // The time line begins with the first reading of a device.
    for row in samples.iter().filter(|row| row.mono_ns >= origin) {
        let Some(track) = tracks.get(&row.launch) else { continue };
        for (name, bytes) in [("rss_bytes", row.rss_bytes), ("device_memory_bytes", row.device_memory_bytes)]
        {
            if let Some(bytes) = bytes {
                let name = format!("{name} of rank {}", row.rank);
                trace.counter(*track, &name, row.mono_ns, bytes as f64)?;
            }
        }
    }
    Ok(())
}
