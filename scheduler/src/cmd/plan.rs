//! `sched plan`: the best plan of a job for each number of devices.

use std::{ops::RangeInclusive, path::PathBuf};

use anyhow::{Context as _, bail};
use cli::table::{self, TableOptions};
use formats::{
    fitted::{BasisWord, ModelFile},
    rows::{BestPlan, MemorySource, RankBy},
};
use jobs::workload_lookup;
use model::FittedModel;
use record::rows::{self};
use rig::{Exit, device, output};
use schema::{
    catalog::{Catalog, CatalogEntry},
    device::Device,
    job::Job,
    plan::Plan,
    units::{HumanBytes, Nanos},
};

use super::predict::cpus_of;
use crate::best_plan::{DEFAULT_RANK, Search};

/// Find the best plan of a job for each number of devices, with a model of `sched fit`.
///
/// The best plan is the one with the shortest predicted step among those that fit, on at most the devices that are offered. Plans are
/// compared by the mean of the time of a step, which exceeds the median by more the wider its interval is (--rank). If the best plan was
/// not measured, the best of the measured ones is shown beside it.
///
/// A plan fits if the upper end of the 95 % interval of the memory of its largest rank does. Memory is `measured`, `fitted` to measured
/// peaks, `assumed` (a formula for transformers), or that of model `states` alone, which is a lower bound. What was observed goes before
/// an estimate: a plan fits if it `ran`, or if one ran that needs at least as much memory by the estimate. A plan is `unfit` if it did not
/// fit, or if one did not that needs at most as much at the same batch.
///
/// Plans in bf16 are left out if no row of the workload is in bf16. Nodes are filled one after another; a plan that divides the model
/// takes as many devices of each, and tensor-parallel ranks are never on several nodes.
///
/// The last columns are the resource-sensitivity curve: one more device, or one more core of the host for each rank, is not taken if it
/// raises the throughput by at most 1 %.
///
/// If no plan fits, the command says what would, and exits with 4.
///
/// Example: `sched plan --model MODEL.json gpt2-mini@b8 --devices 1..4`
///
/// Example: `sched plan --model MODEL.json gpt2-mini@b8 --devices 4 --top 5`
///
/// Example: `sched plan --model a800.json llama2-7b@b16 --devices 1..64 --per-node 8 --memory 80GiB --csv curve.csv`
#[derive(clap::Args)]
pub(super) struct Args {
    /// The job as NAME[@bN] [default: the batch of the workload].
    #[arg(value_name = "JOB", value_parser = job)]
    job: Job,
    /// A model of `sched fit`.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The numbers of devices, such as 1..8, or one number.
    #[arg(long, value_name = "FIRST..LAST", value_parser = devices)]
    devices: RangeInclusive<u32>,
    /// Devices of a node [default: all are on one node].
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u32).range(1..))]
    per_node: Option<u32>,
    /// Numbers of cores of the host for each rank [default: that of the rows, if all have the same].
    #[arg(long, value_name = "C", num_args = 1.., value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Vec<u16>,
    /// Memory of each device, such as 80GiB [default: that of a device of this machine, if it has one of the type of the model; or else
    /// that of the devices of the rows, if it is known; or else every plan is taken to fit].
    #[arg(long, value_name = "SIZE")]
    memory: Option<HumanBytes>,
    /// Compare plans by the median of their predicted times of a step, by its mean, or by the upper end of its 95 % interval.
    ///
    /// The wider the interval, the longer is the mean, and the upper end more so. The plan with the shortest mean has the smallest
    /// expected regret.
    #[arg(long, value_name = "median|mean|upper", default_value_t = DEFAULT_RANK)]
    rank: RankBy,
    /// List the K best plans for each number of devices.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    top: u32,
    /// Also write the rows to this file; an existing file is replaced.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// A file with additional workloads and programs.
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let file = ModelFile::read(&args.model)?;
    let model = FittedModel::new(&file).with_context(|| args.model.display().to_string())?;
    let catalog = Catalog::open(&args.catalog)?;
    let name = &args.job.workload;
    let fitted = || {
        file.workloads.iter().find(|known| known.workload == *name).ok_or_else(|| {
            let names: Vec<&str> = file.workloads.iter().map(|known| known.workload.as_str()).collect();
            let message = format!("{} has no '{name}'; it has {}", args.model.display(), names.join(", "));
            Exit::NothingMatched.because(message)
        })
    };
    let entry = workload_lookup::entry(&catalog, name).or_else(|error| match fitted() {
        Ok(_) => bail!(
            "{} has '{name}', and no catalog does: name the file of its definition with --catalog",
            args.model.display()
        ),
        Err(_) => Err(error),
    })?;
    let batch = args.job.global_batch.unwrap_or(entry.global_batch());
    if let CatalogEntry::Program(program) = entry
        && let Some(reason) = program.refuses(&Plan::default(), batch)
    {
        bail!("{reason}");
    }
    let mut search = Search::new(&model, &file, fitted()?, entry, batch);
    let mut cpus: Vec<Option<u16>> = args.cpus.iter().copied().map(Some).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() {
        cpus.push(cpus_of(fitted()?));
    }
    let capacity = args.memory.map(|HumanBytes(bytes)| bytes).or_else(|| memory_here(&file.device_type));
    let capacity = capacity.or(file.memory_bytes());
    search.per_node = args.per_node;
    search.capacity = capacity;
    (search.rank_by, search.top) = (args.rank, args.top as usize);
    let found = search
        .rows(*args.devices.start(), *args.devices.end(), &cpus)
        .map_err(|none| Exit::NothingMatched.because(none.to_string()))?;
    if let Some(path) = &args.csv {
        rows::write(path, &found)?;
    }
    match args.json {
        true => output::print(rows::to_json(&found))?,
        false => show(&found, &args.table)?,
    }
    for note in doubts(&found, capacity) {
        output::note(format_args!("plan: {note}"));
    }
    Ok(Exit::Ok)
}

/// The memory of a device of this type on this machine, if it has one.
fn memory_here(device_type: &str) -> Option<u64> {
    let found = device::discover().ok()?.devices;
    // Rows are as a rule of one core for each rank.
    let one_core = |device: &Device| match device {
        Device::Cpu(cores) => Some(Device::Cpu(vec![*cores.first()?])),
        _ => None,
    };
    let single: Vec<Device> = found.iter().filter_map(one_core).collect();
    found.iter().chain(&single).find_map(|device| {
        let reader = device::open(device).ok()?;
        let facts = reader.facts();
        facts.memory_bytes.filter(|_| facts.device_type() == device_type)
    })
}

/// What the rows do not say of themselves.
fn doubts(found: &[BestPlan], capacity: Option<u64>) -> Vec<String> {
    let mut notes = Vec::new();
    if capacity.is_none() {
        notes.push("every plan is taken to fit; name the memory of a device with --memory".into());
    }
    let count = |is: &dyn Fn(&BestPlan) -> bool| found.iter().filter(|row| is(row)).count();
    let unknown = count(&|row| row.plan.is_some() && row.memory_bytes.is_none());
    if capacity.is_some() && unknown > 0 {
        notes.push(format!(
            "the memory is not known in {unknown} of {} rows, whose plans are taken to fit; give `parameters` and `state_per_parameter` \
             in `model` of the definition",
            found.len()
        ));
    }
    let unfit = count(&|row| row.plan.is_none());
    if unfit > 0 {
        notes.push(format!("no plan fits in {unfit} of {} rows", found.len()));
    }
    let extrapolated = count(&|row| row.basis == Some(BasisWord::Extrapolated));
    if extrapolated > 0 {
        notes.push(format!("{extrapolated} times are extrapolated: what was assumed before the fit matters"));
    }
    let assumed =
        |row: &BestPlan| matches!(row.memory_source, Some(MemorySource::Assumed | MemorySource::States));
    let unmeasured = count(&assumed);
    if unmeasured > 0 {
        notes.push(format!(
            "the memory of {unmeasured} plans is extrapolated: no peak of the workload was measured"
        ));
    }
    notes
}

fn show(found: &[BestPlan], options: &TableOptions) -> anyhow::Result<()> {
    let has_cpus = found.iter().any(|row| row.cpus != found[0].cpus);
    let mut header = vec![
        "devices",
        "plan",
        "step",
        "95 % interval",
        "basis",
        "samples/s",
        "memory",
        "up to",
        "memory by",
    ];
    header.extend(["curve", "curve devices", "curve samples/s"]);
    if has_cpus {
        header.insert(1, "cores");
        header.insert(header.len() - 1, "curve cores");
    }
    let has_measured = found.iter().any(|row| row.measured_plan.is_some());
    if has_measured {
        let memory = header.iter().position(|name| *name == "memory").unwrap_or_default();
        header.insert(memory, "best measured");
    }
    let has_order = found.iter().any(|row| row.order > 1);
    if has_order {
        header.insert(1, "order");
    }
    let mut lines = table::new(&header);
    lines.mark_text(&["plan", "basis", "best measured"]);
    // Rows that differ in the number of devices alone are one line.
    let is_same = |a: &BestPlan, b: &BestPlan| BestPlan { devices: b.devices, ..a.clone() } == *b;
    for rows in found.chunk_by(is_same) {
        let (row, last) = (&rows[0], rows[rows.len() - 1].devices);
        let times = row.step_ns_ci_lo.zip(row.step_ns_ci_hi);
        let rate = |rate: Option<f64>| table::or_dash(rate.map(|rate| format!("{rate:.2}")));
        let formula = row.formula.map_or(String::new(), |formula| format!(" ({formula})"));
        let mut cells = vec![
            if rows.len() > 1 { format!("{}..{last}", row.devices) } else { last.to_string() },
            table::or_dash(row.plan),
            table::or_dash(row.step_ns.map(Nanos)),
            table::or_dash(times.map(|(lo, hi)| format!("{} to {}", Nanos(lo), Nanos(hi)))),
            format!("{}{formula}", table::or_dash(row.basis)),
            rate(row.samples_per_s),
            table::or_dash(row.memory_bytes.map(HumanBytes)),
            table::or_dash(row.memory_bytes_ci_hi.map(HumanBytes)),
            table::or_dash(row.memory_source),
            table::or_dash(row.curve_plan),
            table::or_dash(row.curve_devices),
            rate(row.curve_samples_per_s),
        ];
        if has_cpus {
            cells.insert(1, table::or_dash(row.cpus));
            cells.insert(cells.len() - 1, table::or_dash(row.curve_cpus));
        }
        if has_measured {
            let measured = row.measured_plan.zip(row.measured_step_ns);
            let text = measured.map(|(plan, step_ns)| format!("{plan}, {}", Nanos(step_ns)));
            cells.insert(if has_cpus { 7 } else { 6 }, table::or_dash(text));
        }
        if has_order {
            cells.insert(1, row.order.to_string());
        }
        lines.add_row(cells);
    }
    options.print(&lines)
}

/// `NAME[@bN]`.
fn job(text: &str) -> Result<Job, String> {
    let job: Job = text.parse().map_err(|error: schema::job::JobError| error.to_string())?;
    match (job.plan, &job.device) {
        (None, None) => Ok(job),
        _ => Err(format!("'{text}' has more than a workload and a batch; write NAME[@bN]")),
    }
}

/// `1..8`, or `8`.
fn devices(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| (1..=65_535).contains(number));
    match number(first).zip(number(last)) {
        Some((first, last)) if first <= last => Ok(first..=last),
        _ => Err(format!("'{text}' is no range of numbers of devices; write 1..8, or 8 for one number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_typed_as_a_range_or_a_number() {
        assert_eq!((devices("1..8"), devices("4")), (Ok(1..=8), Ok(4..=4)));
        for wrong in ["", "0", "0..4", "8..1", "1..", "1...4", "1..99999", "a..b"] {
            assert!(devices(wrong).unwrap_err().contains("write 1..8"), "{wrong}");
        }
    }
}
