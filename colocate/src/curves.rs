//! `curves.csv`: the slowdown of a job beside a stressor, and of the stressor, by the stressor's intensity.
//!
//! With stressors of each resource, a job needs one group per stressor and intensity, instead of one group per other job: O(n)
//! runs instead of O(n^2) (arXiv 2501.16909 measures interference in this way).

use record::rows::{Curve, Interference, Side};

/// Two points for each pair of a job and a stressor, one for the slowdown of each. The intensity is the stressor's global
/// batch, in percent. `stressors` are names of workloads; groups without exactly one of them are no points. Members under
/// `sequential` have no slowdown, and neither have their points.
pub fn curves(rows: &[Interference], stressors: &[String]) -> Vec<Curve> {
    let is_stressor = |row: &Interference| stressors.contains(&row.workload);
    let mut curves = Vec::new();
    for pair in rows.chunk_by(|a, b| (&a.group, &a.sharing) == (&b.group, &b.sharing)) {
        let [first, second] = pair else { continue };
        let (job, stressor) = match (is_stressor(first), is_stressor(second)) {
            (false, true) => (first, second),
            (true, false) => (second, first),
            _ => continue,
        };
        for (side, slowed) in [(Side::Sensitivity, job), (Side::Aggressiveness, stressor)] {
            curves.push(Curve {
                run: job.run.clone(),
                job: job.job.clone(),
                device: job.device.clone(),
                sharing: job.sharing.clone(),
                stressor: stressor.workload.clone(),
                dial_percent: stressor.global_batch.unwrap_or_default(),
                side,
                blocks: slowed.blocks,
                blocks_failed: slowed.blocks_failed,
                slowdown: slowed.slowdown,
                slowdown_ci_lo: slowed.slowdown_ci_lo,
                slowdown_ci_hi: slowed.slowdown_ci_hi,
                status: slowed.status,
                err: slowed.err,
                err_detail: slowed.err_detail.clone(),
            });
        }
    }
    curves
}

#[cfg(test)]
mod tests {
    use record::rows::{ErrorKind, Status};

    use super::*;

    fn row(group: &str, workload: &str, global_batch: u32, slowdown: Option<f64>) -> Interference {
        Interference {
            group: group.into(),
            workload: workload.into(),
            job: format!("{workload}@b{global_batch}@dp1"),
            global_batch: Some(global_batch),
            blocks: 3,
            slowdown,
            status: if slowdown.is_some() { Status::Ok } else { Status::Failed },
            err: slowdown.is_none().then_some(ErrorKind::Contaminated),
            ..Interference::default()
        }
    }

    #[test]
    fn a_pair_with_a_stressor_is_a_point_of_each_curve_in_either_order() {
        let rows = [
            row("1", "lstm", 20, Some(1.5)),
            row("1", "stress-cache", 50, Some(1.1)),
            row("2", "stress-cache", 100, Some(1.2)),
            row("2", "lstm", 20, Some(2.0)),
            row("3", "lstm", 20, None),
            row("3", "stress-memory", 25, None),
            // Two jobs, two stressors and three members are no points.
            row("4", "lstm", 20, Some(2.0)),
            row("4", "vae", 128, Some(2.0)),
            row("5", "stress-cache", 50, Some(2.0)),
            row("5", "stress-cache", 50, Some(2.0)),
            row("6", "lstm", 20, Some(3.0)),
            row("6", "lstm", 20, Some(3.0)),
            row("6", "stress-cache", 50, Some(3.0)),
        ];
        let stressors = ["stress-cache".to_string(), "stress-memory".to_string()];
        let found = curves(&rows, &stressors);
        let points: Vec<_> = found
            .iter()
            .map(|point| (point.stressor.as_str(), point.dial_percent, point.side, point.slowdown))
            .collect();
        assert_eq!(
            points,
            [
                ("stress-cache", 50, Side::Sensitivity, Some(1.5)),
                ("stress-cache", 50, Side::Aggressiveness, Some(1.1)),
                ("stress-cache", 100, Side::Sensitivity, Some(2.0)),
                ("stress-cache", 100, Side::Aggressiveness, Some(1.2)),
                ("stress-memory", 25, Side::Sensitivity, None),
                ("stress-memory", 25, Side::Aggressiveness, None),
            ]
        );
        assert!(found.iter().all(|point| point.job == "lstm@b20@dp1"));
        assert_eq!((found[5].status, found[5].err), (Status::Failed, Some(ErrorKind::Contaminated)));
        assert!(curves(&rows, &[]).is_empty());
    }
}
