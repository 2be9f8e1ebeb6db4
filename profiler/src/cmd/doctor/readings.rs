//! `profile doctor --readings`: how long a reading of a device takes, at rest and beside a job.

use cli::table::{self, TableLayout};
use jobs::run::{self, Observed};
use record::rows::{self, Appender, Load, ReadingRow};
use rig::{Exit, Rig, device, interrupt::Interrupt, output, programs, sampler::SamplerCost};
use schema::units::Nanos;

use super::{Args, trial};
use crate::{
    follow::{Follower, WARM_UP},
    readings::Readings,
};

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let observed = Observed::from_now();
    let trial = trial::begin(args.job.as_ref(), args.device.as_ref(), args.out.as_deref())?;
    let interrupt = Interrupt::listen()?;
    let open = |device| device::open(device).map_err(|e| Exit::MachineLacks.because(e.to_string()));
    let devices = &trial.manifest.cells[0].devices;
    let readers = devices.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let device_rows = Appender::open(&trial.run.devices_path())?;
    let mut readings = Readings::new(readers, device_rows, args.calls, &interrupt);
    let mut rows = readings.take(Load::Idle, |pause| {
        std::thread::sleep(pause);
        Ok(())
    })?;
    let mut rig = Rig::new(programs::all()?)?;
    let mut follower = Follower::start(&mut rig, None, trial.request, &interrupt)?;
    follower.follow(WARM_UP)?;
    rows.extend(readings.take(Load::Training, |pause| follower.follow(pause))?);
    follower.dismiss();
    drop(rig);
    readings.finish();
    run::write_end(&trial.run, Exit::Ok, Vec::new(), observed, SamplerCost::default())?;
    // Puts the row of a reading at rest next to that of the same reading beside the job.
    let order: Vec<_> = rows.iter().map(|row| (row.device.clone(), row.reading.clone())).collect();
    rows.sort_by_key(|row| {
        order.iter().position(|(device, reading)| (device, reading) == (&row.device, &row.reading))
    });
    if args.json {
        output::print(rows::to_json(&rows))?;
    } else {
        show(&rows, args.layout)?;
    }
    output::news(format_args!("run: {}", trial.run.path().display()));
    Ok(Exit::Ok)
}

fn show(rows: &[ReadingRow], layout: TableLayout) -> anyhow::Result<()> {
    let mut table =
        table::new(&["reading", "load", "p50", "p99", "longest", "calls", "failed", "device", "found"]);
    table.mark_text(&["load", "device", "found"]);
    for row in rows {
        let ns = |ns: Option<u64>| table::or_dash(ns.map(Nanos));
        table.add_row([
            row.reading.clone(),
            row.load.to_string(),
            ns(row.ns_p50),
            ns(row.ns_p99),
            ns(row.ns_max),
            row.calls.to_string(),
            row.failures.to_string(),
            row.device.clone(),
            row.capability.clone().unwrap_or_default(),
        ]);
    }
    layout.print(&table)
}
