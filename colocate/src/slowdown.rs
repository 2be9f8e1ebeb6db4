//! What being in a group costs: rows of `interference.csv` out of rows of `measurements.csv`.
//!
//! The time of a step, alone and together, is the length of the window over the steps in it. In each block a job is measured
//! alone before all groups and after them; the time together is held against the geometric mean of these two, so that a
//! drift by a constant factor cancels and no baseline is older than its block. Over blocks the ratios are averaged on the
//! log scale, with the t interval.

use schema::{
    device::Device,
    group::Group,
    rows::{ErrorKind, Interference, Measurement, Status, Warning, Warnings},
    wire::Timing,
};
use statistics::{
    Interval,
    launches::{abba, ratio_paired},
};

/// One row per member of each group, in the order of the groups. A group whose first block is not complete has none yet.
pub fn interference(groups: &[Group], rows: &[Measurement]) -> Vec<Interference> {
    groups.iter().flat_map(|group| of_group(group, rows)).collect()
}

/// One seat of a group: what was measured in it, and of the same job alone.
struct Member<'a> {
    together: Vec<&'a Measurement>,
    alone: Vec<&'a Measurement>,
}

/// A number alone and together, over blocks.
struct Ratio {
    alone: f64,
    together: f64,
    blocks: usize,
    /// Absent with a single block.
    interval: Option<Interval>,
}

fn of_group(group: &Group, rows: &[Measurement]) -> Vec<Interference> {
    let seats = 0..group.members.len() as u32;
    let members: Vec<Member> = seats.filter_map(|seat| Member::of(group, seat, rows)).collect();
    if members.len() < group.members.len() {
        return Vec::new();
    }
    let ratios: Vec<Option<Ratio>> = members.iter().map(|member| member.ratio(step_ns)).collect();
    let failures: Vec<Option<Failure>> = members.iter().map(Member::failure).collect();
    if ratios.iter().zip(&failures).any(|(ratio, failure)| ratio.is_none() && failure.is_none()) {
        return Vec::new();
    }
    let mut table: Vec<Interference> = members
        .iter()
        .zip(ratios.iter().zip(failures))
        .map(|(member, (ratio, failure))| member.row(group, ratio.as_ref(), failure))
        .collect();

    let slowdowns: Option<Vec<f64>> = ratios.iter().map(|ratio| Some(ratio.as_ref()?.slowdown())).collect();
    let is_ok = |row: &&Measurement| row.status == Status::Ok;
    let is_valid = slowdowns.is_some()
        && members.iter().all(|member| member.together.iter().all(is_ok))
        && table
            .iter()
            .all(|row| row.warnings.iter().all(|w| matches!(w, Warning::Looped | Warning::Unread)));
    let throughput = slowdowns.as_ref().map(|all| rounded(all.iter().map(|slowdown| 1.0 / slowdown).sum()));
    let worst = slowdowns.map(|all| rounded(all.into_iter().fold(0.0, f64::max)));
    let together = members.first().map(|first| &first.together[..]).unwrap_or_default();
    let of_block = |block: u32| -> Option<u64> {
        members
            .iter()
            .map(|member| memory_bytes(member.together.iter().find(|row| row.repeat == block)?))
            .sum()
    };
    let group_memory = together.iter().filter_map(|row| of_block(row.repeat)).max();
    let peak_alone = |member: &Member| member.alone.iter().filter_map(|row| memory_bytes(row)).max();
    let alone_memory: Option<u64> = members.iter().map(peak_alone).sum();
    for row in &mut table {
        row.group_norm_throughput = throughput;
        row.worst_slowdown = worst;
        row.group_memory_bytes = group_memory;
        row.alone_memory_sum_bytes = alone_memory;
        row.valid = is_valid;
    }
    table
}

/// Why a seat has no ratio.
struct Failure {
    status: Status,
    err: Option<ErrorKind>,
    detail: Option<String>,
}

impl<'a> Member<'a> {
    /// `None` where the seat has no row yet.
    fn of(group: &Group, seat: u32, rows: &'a [Measurement]) -> Option<Member<'a>> {
        let sits_here = |row: &&Measurement| {
            row.group.as_ref() == Some(&group.name) && row.sharing == group.sharing && row.seat == Some(seat)
        };
        let together: Vec<&Measurement> = rows.iter().filter(sits_here).collect();
        let first = together.first()?;
        let is_same_alone =
            |row: &&Measurement| row.group.is_none() && row.job == first.job && row.device == first.device;
        let alone = rows.iter().filter(is_same_alone).collect();
        Some(Member { together, alone })
    }

    /// `(alone, together)` of each block that has all three.
    fn pairs(&self, value: fn(&Measurement) -> Option<f64>) -> Vec<(f64, f64)> {
        let known = |row: &Measurement| value(row).filter(|value| row.status == Status::Ok && *value > 0.0);
        let pair = |row: &&Measurement| {
            let of_block = self.alone.iter().filter(|alone| alone.repeat == row.repeat);
            let comparable = of_block.filter(|alone| has_steps(alone) == has_steps(row));
            let alone: Vec<f64> = comparable.filter_map(|alone| known(alone)).collect();
            let [before, after] = alone[..] else { return None };
            let together = known(row)?;
            Some(abba([before, together, together, after]))
        };
        self.together.iter().filter_map(pair).collect()
    }

    fn ratio(&self, value: fn(&Measurement) -> Option<f64>) -> Option<Ratio> {
        let pairs = self.pairs(value);
        let mean = |of: fn(&(f64, f64)) -> f64| {
            (pairs.iter().map(|pair| of(pair).ln()).sum::<f64>() / pairs.len() as f64).exp()
        };
        (!pairs.is_empty()).then(|| Ratio {
            alone: mean(|(alone, _)| *alone),
            together: mean(|(_, together)| *together),
            blocks: pairs.len(),
            interval: ratio_paired(&pairs),
        })
    }

    /// What went wrong together, or else alone.
    fn failure(&self) -> Option<Failure> {
        let failed = |row: &&&Measurement| row.status != Status::Ok;
        let of = |row: &Measurement, place: &str| Failure {
            status: row.status,
            err: row.err,
            detail: row.err_detail.as_ref().map(|detail| format!("{place}{detail}")),
        };
        let together = self.together.iter().find(failed).map(|row| of(row, ""));
        let alone = || self.alone.iter().find(failed).map(|row| of(row, "alone: "));
        together.or_else(alone).or_else(|| self.incomparable())
    }

    fn incomparable(&self) -> Option<Failure> {
        let (together, alone) = (self.together.first()?, self.alone.first()?);
        let detail = "its steps are known in the group and not alone, or the other way round";
        (has_steps(together) != has_steps(alone)).then(|| Failure {
            status: Status::Failed,
            err: Some(ErrorKind::NoHello),
            detail: Some(detail.into()),
        })
    }

    fn row(&self, group: &Group, ratio: Option<&Ratio>, failure: Option<Failure>) -> Interference {
        let first = self.together[0];
        let p99 = self.ratio(|row| row.step_ns_p99.map(|ns| ns as f64));
        let mut warnings: Warnings =
            self.together.iter().chain(&self.alone).flat_map(|row| row.warnings.iter()).collect();
        if ratio.and_then(|ratio| ratio.interval).is_some_and(|interval| interval.hi < 1.0) {
            warnings.add(Warning::FasterTogether);
        }
        let failure = failure.filter(|_| ratio.is_none());
        let ends = |ratio: Option<&Ratio>| ratio.and_then(|ratio| ratio.interval);
        Interference {
            run: first.run.clone(),
            job: first.job.clone(),
            workload: first.workload.clone(),
            plan: first.plan,
            global_batch: first.global_batch,
            device: first.device.clone(),
            sharing: group.sharing.clone(),
            group: group.name.clone(),
            group_size: group.members.len() as u32,
            seat: first.seat.unwrap_or_default(),
            blocks: ratio.map_or(0, |ratio| ratio.blocks as u32),
            timing: self.together.iter().find_map(|row| row.timing),
            step_ns_alone: ratio.map(|ratio| ratio.alone.round() as u64),
            step_ns_together: ratio.map(|ratio| ratio.together.round() as u64),
            slowdown: ratio.map(|ratio| rounded(ratio.slowdown())),
            slowdown_ci_lo: ends(ratio).map(|interval| rounded(interval.lo)),
            slowdown_ci_hi: ends(ratio).map(|interval| rounded(interval.hi)),
            slowdown_p99: p99.as_ref().map(|ratio| rounded(ratio.slowdown())),
            slowdown_p99_ci_lo: ends(p99.as_ref()).map(|interval| rounded(interval.lo)),
            slowdown_p99_ci_hi: ends(p99.as_ref()).map(|interval| rounded(interval.hi)),
            norm_throughput: ratio.map(|ratio| rounded(1.0 / ratio.slowdown())),
            warnings,
            status: failure.as_ref().map_or(Status::Ok, |failure| failure.status),
            err: failure.as_ref().and_then(|failure| failure.err),
            err_detail: failure.and_then(|failure| failure.detail),
            ..Interference::default()
        }
    }
}

impl Ratio {
    fn slowdown(&self) -> f64 {
        self.together / self.alone
    }
}

/// The time of a step; of a program without steps, of the whole program.
fn step_ns(row: &Measurement) -> Option<f64> {
    if has_steps(row) {
        (row.steps_used > 0).then_some(row.window_ns? as f64 / row.steps_used as f64)
    } else {
        row.wall_ns.map(|ns| ns as f64)
    }
}

fn has_steps(row: &Measurement) -> bool {
    row.timing != Some(Timing::Outside)
}

/// What a job took at most: as the driver of a GPU says, and resident memory on CPU devices.
fn memory_bytes(row: &Measurement) -> Option<u64> {
    let is_cpu = |name: &str| matches!(name.parse(), Ok(Device::Cpu(_) | Device::AllCores));
    if row.device.split(',').all(is_cpu) { row.host_rss_peak_bytes } else { row.device_memory_bytes }
}

/// Six decimals: more would be digits that nothing measured.
fn rounded(ratio: f64) -> f64 {
    (ratio * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests;
