//! A round: who gets devices, who gives them up, and which of these exchanges pays.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::floor::{Claim, Exchange, Floor};

/// A job and the steepest rise of its curve above what it has.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wish {
    slope: f64,
    job: usize,
}

impl Eq for Wish {}

impl PartialOrd for Wish {
    fn partial_cmp(&self, other: &Wish) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The steepest first, and of equal ones the job that arrived first.
impl Ord for Wish {
    fn cmp(&self, other: &Wish) -> Ordering {
        self.slope.total_cmp(&other.slope).then(other.job.cmp(&self.job))
    }
}

/// Divides the devices among the jobs, which are in order of arrival. Returns the exchanges in the order in which they were made.
///
/// First the guaranteed jobs that are below their guarantee take what they need. Then each best-effort job that waits takes what pays, or
/// else what others have above what they ask for. Then the job whose curve rises most for a further device takes it, from those that lose least, until nothing pays.
pub(super) fn divide(floor: &mut Floor) -> Vec<(Claim, Exchange)> {
    let mut made = Vec::new();
    for job in 0..floor.jobs.len() {
        if floor.jobs[job].is_below_guarantee() {
            let exchange = for_guarantee(floor, job);
            if exchange.is_none() && floor.jobs[job].is_overdue {
                floor.reserve(job);
            }
            make(floor, Claim::Guarantee, exchange, &mut made);
        }
    }
    for job in 0..floor.jobs.len() {
        if floor.jobs[job].has.is_none() && floor.jobs[job].least.is_none() {
            match best(floor, job) {
                Some(exchange) => make(floor, Claim::Gain, Some(exchange), &mut made),
                None => {
                    let mut starts = floor.jobs[job].starts();
                    let exchange = starts.find_map(|level| floor.exchange(job, level, Claim::Start));
                    make(floor, Claim::Start, exchange, &mut made);
                }
            }
        }
    }
    let wish = |floor: &Floor, job: usize| Some(Wish { slope: floor.jobs[job].slope_up()?, job });
    let mut wishes: BinaryHeap<Wish> = (0..floor.jobs.len()).filter_map(|job| wish(floor, job)).collect();
    while let Some(Wish { job, slope }) = wishes.pop() {
        // A job that has changed since has another wish in the heap.
        if floor.jobs[job].slope_up() != Some(slope) {
            continue;
        }
        let Some(exchange) = best(floor, job) else { continue };
        let changed: Vec<usize> = exchange.givers.keys().copied().chain([job]).collect();
        make(floor, Claim::Gain, Some(exchange), &mut made);
        wishes.extend(changed.into_iter().filter_map(|job| wish(floor, job)));
    }
    made
}

fn make(floor: &mut Floor, claim: Claim, exchange: Option<Exchange>, made: &mut Vec<(Claim, Exchange)>) {
    if let Some(exchange) = exchange {
        floor.apply(&exchange);
        made.push((claim, exchange));
    }
}

/// The exchange that gives a job the lowest level with its guarantee.
fn for_guarantee(floor: &Floor, job: usize) -> Option<Exchange> {
    let of = &floor.jobs[job];
    let reaches = |level: &usize| of.speed_at(*level) >= of.guarantee * (1.0 - 1e-9);
    let least = of.least?;
    let mut levels = of.higher().filter(reaches).chain(Some(least).filter(|_| of.has.is_none()));
    let level = levels.next()?;
    floor.exchange(job, level, Claim::Guarantee)
}

/// Of the exchanges that pay, the one by which a job gains the most speed for each further device.
fn best(floor: &Floor, job: usize) -> Option<Exchange> {
    let of = &floor.jobs[job];
    if of.has.is_some() && !of.may_restart && !of.has_changed() {
        return None;
    }
    let mut levels: Vec<usize> = of.higher().collect();
    levels.sort_by(|a, b| of.slope_to(*b).total_cmp(&of.slope_to(*a)).then(a.cmp(b)));
    let mut exchanges =
        levels.into_iter().filter_map(|level| floor.exchange(job, level, of.claim_for(level)));
    exchanges.find(|exchange| exchange.benefit(of) > 0.0)
}
