//! `trace.json`: steps of launches and readings of devices on one time line, for Perfetto.

use record::{
    rows::{self, DeviceSample},
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
    for (i, launch) in run.launches()?.iter().enumerate() {
        let spec = run.spec(launch)?;
        // PyTorch's profiler made its steps longer, and has a trace of them.
        if spec.operators.is_some() {
            continue;
        }
        let track = i as u64 + 1;
        trace.name_process(track, launch)?;
        for rank in 0..run.ranks(&spec) {
            write_steps(run, &mut trace, launch, track, rank, origin)?;
        }
    }
    write_devices(&mut trace, &samples)?;
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
            written = trace.span((track, u64::from(rank)), name, span, arguments(step));
        }
    });
    Ok(written?)
}

/// The values that are shown for a selected step. Phases are lengths, because their position within a step is not recorded.
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
