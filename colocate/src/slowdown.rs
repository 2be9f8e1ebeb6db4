//! The cost of sharing: makes rows of `interference.csv` from rows of `measurements.csv`.
//!
//! The time of a step, alone and together, is the length of the window divided by the number of its steps. In each block a job
//! is measured alone before all groups and after them. The time together is divided by the geometric mean of these two, so that
//! a drift by a constant factor cancels and no baseline is older than its block. The ratios of all blocks are averaged on the
//! log scale, with the t interval.
//!
//! A resumed run measures an incomplete block again, and only launches of one part of the run are compared: the last visit of a
//! group in a block counts, with the launches alone of the same part.

use record::{
    group::Group,
    rows::{ErrorKind, Interference, MOST_RATIO, Measurement, Status, Warning, Warnings},
};
use schema::{device::Device, sharing::Sharing, wire::Timing};
use statistics::{
    Interval,
    launches::{abba, between_launches, ratio_paired},
};

/// One row per member of each group, in the order of the groups. A group without a complete first block has no row yet.
pub fn interference(groups: &[Group], rows: &[Measurement]) -> Vec<Interference> {
    groups.iter().flat_map(|group| of_group(group, rows)).collect()
}

/// One seat of a group: its rows, one per block, and the rows of the same job alone in these blocks.
struct Member<'a> {
    together: Vec<&'a Measurement>,
    alone: Vec<&'a Measurement>,
}

/// A value alone and together, over blocks.
struct Ratio {
    alone: f64,
    together: f64,
    blocks: usize,
    /// `None` with a single block.
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

    let is_valid = ratios.iter().all(Option::is_some) && table.iter().all(|row| row.warnings.leave_valid());
    let throughputs = norm_throughputs(&members);
    let interval = between_launches(&throughputs);
    let throughput = interval.map(|interval| interval.estimate).or_else(|| throughputs.first().copied());
    let together = members.first().map(|first| &first.together[..]).unwrap_or_default();
    let of_block = |block: u32| -> Option<u64> {
        members.iter().map(|member| memory_bytes(member.in_block(block)?)).sum()
    };
    let group_memory = together.iter().filter_map(|row| of_block(row.repeat)).max();
    let peak_alone = |member: &Member| member.alone.iter().filter_map(|row| memory_bytes(row)).max();
    let alone_memory: Option<u64> = members.iter().map(peak_alone).sum();
    for row in &mut table {
        row.group_norm_throughput = throughput.map(rounded);
        row.group_norm_throughput_ci_lo = interval.map(|interval| end(interval.lo));
        row.group_norm_throughput_ci_hi = interval.map(|interval| end(interval.hi));
        row.group_memory_bytes = group_memory;
        row.alone_memory_sum_bytes = alone_memory;
        row.valid = is_valid;
    }
    table
}

/// The throughput of the group relative to its members alone, in each block in which all of them have numbers: the sum of each
/// member's rate over the whole window, including time in which it was held, divided by its rate alone.
fn norm_throughputs(members: &[Member]) -> Vec<f64> {
    let of_member = |member: &Member, block: u32| {
        let (alone, together) = member.pair(member.in_block(block)?, step_ns)?;
        Some(alone / together)
    };
    let of_block = |row: &&Measurement| members.iter().map(|member| of_member(member, row.repeat)).sum();
    members.first().map(|first| first.together.iter().filter_map(of_block).collect()).unwrap_or_default()
}

/// The reason that a seat has no ratio.
struct Failure {
    status: Status,
    err: Option<ErrorKind>,
    detail: Option<String>,
}

impl<'a> Member<'a> {
    /// Returns `None` if the seat has no row yet.
    fn of(group: &Group, seat: u32, rows: &'a [Measurement]) -> Option<Member<'a>> {
        let sits_here = |row: &&Measurement| {
            row.group.as_ref() == Some(&group.name) && row.sharing == group.sharing && row.seat == Some(seat)
        };
        let all: Vec<&Measurement> = rows.iter().filter(sits_here).collect();
        let is_last =
            |row: &&Measurement| !all.iter().any(|other| other.repeat == row.repeat && other.part > row.part);
        let together: Vec<&Measurement> = all.iter().copied().filter(is_last).collect();
        let first = together.first()?;
        let is_beside = |row: &Measurement| {
            together.iter().any(|seated| (seated.repeat, seated.part) == (row.repeat, row.part))
        };
        let is_same_alone = |row: &&Measurement| {
            row.group.is_none() && row.job == first.job && row.device == first.device && is_beside(row)
        };
        let alone = rows.iter().filter(is_same_alone).collect();
        Some(Member { together, alone })
    }

    fn in_block(&self, block: u32) -> Option<&'a Measurement> {
        self.together.iter().copied().find(|row| row.repeat == block)
    }

    /// The launches alone in the block of this row.
    fn alone_of(&self, row: &Measurement) -> impl Iterator<Item = &'a Measurement> {
        self.alone.iter().copied().filter(move |alone| alone.repeat == row.repeat)
    }

    /// `(alone, together)` in the block of this row, if all three launches have the value.
    fn pair(&self, row: &Measurement, value: fn(&Measurement) -> Option<f64>) -> Option<(f64, f64)> {
        let known = |row: &Measurement| value(row).filter(|value| row.status == Status::Ok && *value > 0.0);
        let comparable = self.alone_of(row).filter(|alone| has_steps(alone) == has_steps(row));
        let alone: Vec<f64> = comparable.filter_map(known).collect();
        let [before, after] = alone[..] else { return None };
        let together = known(row)?;
        Some(abba([before, together, together, after]))
    }

    fn ratio(&self, value: fn(&Measurement) -> Option<f64>) -> Option<Ratio> {
        let pairs: Vec<(f64, f64)> = self.together.iter().filter_map(|row| self.pair(row, value)).collect();
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

    /// The number of blocks that are over and have no ratio. A block in progress, or one that was cut off, has not failed.
    fn blocks_failed(&self) -> usize {
        let has_failed = |row: &&&Measurement| {
            let failed = |row: &Measurement| row.status == Status::Failed;
            let is_whole = self.alone_of(row).count() == 2 && row.status == Status::Ok;
            failed(row) || self.alone_of(row).any(failed) || (is_whole && self.pair(row, step_ns).is_none())
        };
        self.together.iter().filter(has_failed).count()
    }

    /// The failure of a launch together, or otherwise of a launch alone.
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
        let detail = "its steps are known in the group but not alone, or alone but not in the group";
        (has_steps(together) != has_steps(alone)).then(|| Failure {
            status: Status::Failed,
            err: Some(ErrorKind::NoHello),
            detail: Some(detail.into()),
        })
    }

    fn row(&self, group: &Group, ratio: Option<&Ratio>, failure: Option<Failure>) -> Interference {
        let first = self.together[0];
        let blocks_failed = self.blocks_failed();
        // The share of a member depends on the lengths of the turns, and is no property of the member.
        let own = ratio.filter(|_| group.sharing != Sharing::Sequential);
        let p99 = self.ratio(|row| row.step_ns_p99.map(|ns| ns as f64));
        let p99 = p99.filter(|p99| own.is_some_and(|own| own.blocks == p99.blocks));
        let p99 = p99.filter(|_| !group.sharing.takes_turns());
        let failure = failure.filter(|_| ratio.is_none());
        let ends = |ratio: Option<&Ratio>| ratio.and_then(|ratio| ratio.interval);
        Interference {
            run: first.run.clone(),
            job: first.job.clone(),
            workload: first.workload.clone(),
            command: first.command.clone(),
            plan: first.plan,
            global_batch: first.global_batch,
            device: first.device.clone(),
            sharing: group.sharing.clone(),
            group: group.name.clone(),
            group_size: group.members.len() as u32,
            seat: first.seat.unwrap_or_default(),
            blocks: ratio.map_or(0, |ratio| ratio.blocks as u32),
            blocks_failed: blocks_failed as u32,
            timing: self.together.iter().find_map(|row| row.timing),
            step_ns_alone: ratio.map(|ratio| ratio.alone.round() as u64),
            step_ns_together: own.map(|ratio| ratio.together.round() as u64),
            slowdown: own.map(|ratio| rounded(ratio.slowdown())),
            slowdown_ci_lo: ends(own).map(|interval| end(interval.lo)),
            slowdown_ci_hi: ends(own).map(|interval| end(interval.hi)),
            slowdown_p99: p99.as_ref().map(|ratio| rounded(ratio.slowdown())),
            slowdown_p99_ci_lo: ends(p99.as_ref()).map(|interval| end(interval.lo)),
            slowdown_p99_ci_hi: ends(p99.as_ref()).map(|interval| end(interval.hi)),
            norm_throughput: own.map(|ratio| rounded(1.0 / ratio.slowdown())),
            warnings: self.warnings(own, ratio.is_some() && blocks_failed > 0),
            status: failure.as_ref().map_or(Status::Ok, |failure| failure.status),
            err: failure.as_ref().and_then(|failure| failure.err),
            err_detail: failure.and_then(|failure| failure.detail),
            ..Interference::default()
        }
    }

    /// The warnings of all launches behind a row, and those of the row itself.
    fn warnings(&self, own: Option<&Ratio>, some_failed: bool) -> Warnings {
        let launches = || self.together.iter().chain(&self.alone);
        let mut warnings: Warnings = launches().flat_map(|row| row.warnings.iter()).collect();
        // A launch without a steady state may be a cold start. It stays in the ratio, with the warning.
        if launches().any(|row| row.steady == Some(false)) {
            warnings.add(Warning::NotSteady);
        }
        if own.and_then(|ratio| ratio.interval).is_some_and(|interval| interval.hi < 1.0) {
            warnings.add(Warning::FasterTogether);
        }
        if some_failed {
            warnings.add(Warning::BlocksFailed);
        }
        warnings
    }
}

impl Ratio {
    fn slowdown(&self) -> f64 {
        self.together / self.alone
    }
}

/// The time of a step; for a program without steps, the run time.
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

/// The peak memory of a job: on a GPU as the driver reports it, on CPU devices resident memory.
fn memory_bytes(row: &Measurement) -> Option<u64> {
    let is_cpu = |name: &str| matches!(name.parse(), Ok(Device::Cpu(_) | Device::AllCores));
    if row.device.split(',').all(is_cpu) { row.host_rss_peak_bytes } else { row.device_memory_bytes }
}

/// Rounds to six decimals, because further digits would not be measured ones.
fn rounded(ratio: f64) -> f64 {
    (ratio * 1e6).round() / 1e6
}

/// An end of the interval of a ratio. Two blocks that differ a hundredfold have a wider interval, and no ratio is larger.
fn end(ratio: f64) -> f64 {
    rounded(ratio.min(MOST_RATIO))
}

#[cfg(test)]
mod tests;
