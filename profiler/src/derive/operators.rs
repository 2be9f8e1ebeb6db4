//! The rows of `operators.csv`, from the traces of PyTorch's profiler.

use record::{
    operators::{self, Operator, OperatorTimes},
    rows::OperatorTime,
    run_dir::RunDir,
};
use schema::spec::{LaunchSpec, OperatorSteps};

use super::{rounded, whole};

/// The rows of all recordings: launch by launch and rank by rank, the operator with the longest time first.
pub(crate) fn recorded_operators(run: &RunDir) -> anyhow::Result<Vec<OperatorTime>> {
    let mut rows = Vec::new();
    for launch in run.launches()? {
        let spec = run.spec(&launch)?;
        let Some(steps) = spec.operators else { continue };
        for rank in 0..run.ranks(&spec) {
            let path = run.operators_trace_path(&launch, rank);
            if path.is_file() {
                rows.extend(of_rank(run, (&spec, steps), rank, operators::read(&path)?));
            }
        }
    }
    Ok(rows)
}

fn of_rank(
    run: &RunDir,
    (spec, steps): (&LaunchSpec, OperatorSteps),
    rank: u32,
    times: OperatorTimes,
) -> Vec<OperatorTime> {
    let OperatorTimes { window_ns, busy_ns, mut operators } = times;
    operators.sort_by(|a, b| time_ns(b).total_cmp(&time_ns(a)));
    let all_ns: f64 = operators.iter().map(time_ns).sum();
    let device = spec.devices.get(rank as usize).or(spec.devices.first());
    let row = |operator: Operator| OperatorTime {
        run: run.name(),
        launch: spec.launch.clone(),
        job: spec.job.clone(),
        device: device.map(ToString::to_string).unwrap_or_default(),
        rank,
        steps: steps.count,
        window_ns: whole(window_ns),
        idle_percent: rounded(100.0 * (1.0 - busy_ns / window_ns), 2),
        share_percent: (all_ns > 0.0).then(|| rounded(100.0 * time_ns(&operator) / all_ns, 2)),
        calls: operator.calls,
        host_ns: whole(operator.host_ns),
        device_ns: operator.device_ns.map(whole),
        operator: operator.name,
    };
    operators.into_iter().map(row).collect()
}

/// The time of an operator on the device, or without a device on the host, in nanoseconds.
fn time_ns(operator: &Operator) -> f64 {
    operator.device_ns.unwrap_or(operator.host_ns)
}
