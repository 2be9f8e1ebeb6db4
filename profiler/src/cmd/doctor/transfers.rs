//! `profile doctor --transfers`: the speed of the link, and the accuracy of the device's counters of its traffic.

use cli::table;
use record::rows::{self, Direction};
use rig::{Exit, output};
use schema::{device::Device, units::HumanBytes};

use super::Args;
use crate::transfers::{self, verdict};

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let index = match args.device.clone().unwrap_or(Device::Cuda(0)) {
        Device::Cuda(index) => index,
        cpu => {
            let refusal = format!("{cpu} has no link to copy over; name a GPU, as in --device cuda:0");
            return Err(Exit::Usage.because(refusal));
        }
    };
    let rows = transfers::measure(index, args.mib << 20, args.copies)?;
    if args.json {
        output::print(rows::to_json(&rows))?;
        return Ok(Exit::Ok);
    }
    let mut table = table::new(&["device", "direction", "each copy", "copies", "speed", "95 % interval"]);
    for row in &rows {
        let interval = row.bytes_per_s_ci_lo.zip(row.bytes_per_s_ci_hi);
        table.add_row([
            row.device.clone(),
            row.direction.to_string(),
            HumanBytes(row.bytes).to_string(),
            row.copies.to_string(),
            format!("{:.2} GB/s", row.bytes_per_s / 1e9),
            interval.map_or("-".into(), |(lo, hi)| format!("{:.2} to {:.2}", lo / 1e9, hi / 1e9)),
        ]);
    }
    args.layout.print(&table)?;
    for row in &rows {
        let way = match row.direction {
            Direction::HostToDevice => "received",
            Direction::DeviceToHost => "transmitted",
        };
        output::print(format_args!(
            "bytes {way}, by the PCIe counters: {}",
            verdict(row.counter_ratio, row.counter_ratio_ci_lo.zip(row.counter_ratio_ci_hi))
        ))?;
        output::print(format_args!(
            "bytes {way}, by the rates of GPM: {}",
            verdict(row.gpm_ratio, row.gpm_ratio_ci_lo.zip(row.gpm_ratio_ci_hi))
        ))?;
    }
    Ok(Exit::Ok)
}
