//! The step times that give jobs of a trace their numbers of steps.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use formats::trace::TraceRow;
use model::{JobKey, PredictRequest, Table, Throughput as _, TraceTime};
use schema::sharing::Sharing;

use crate::inputs;

/// The step times of jobs on one type of device.
pub(super) struct StepTimes {
    table: Table,
    device_type: String,
}

impl StepTimes {
    /// Reads the rows of these runs. `device_type` may be left out if the rows have one type.
    pub(super) fn read(runs: &[PathBuf], device_type: Option<&str>) -> anyhow::Result<StepTimes> {
        let table = inputs::table(runs)?;
        let types: Vec<&str> = table.device_types().collect();
        let device_type = match (device_type, &types[..]) {
            (Some(named), _) => {
                ensure!(
                    types.contains(&named),
                    "--device-type {named}: the table has no such type; it has {}",
                    types.join(" and ")
                );
                named.to_owned()
            }
            (None, []) => String::new(),
            (None, [only]) => (*only).to_owned(),
            (None, several) => {
                bail!(
                    "the table has several device types, {}; name one with --device-type",
                    several.join(" and ")
                )
            }
        };
        Ok(StepTimes { table, device_type })
    }

    /// The time of a step of a line's job alone, in nanoseconds.
    pub(super) fn step_ns(&self, row: &TraceRow) -> anyhow::Result<f64> {
        let job = row.job.as_ref().context("a command has no step time")?;
        let (plan, devices) = (job.plan, row.devices());
        let trace_time =
            row.step_ns.map(|step_ns| TraceTime { step_ns, plan, devices, nodes: 1, device_type: None });
        let question = PredictRequest {
            job: JobKey { trace_time, ..JobKey::new(&job.workload, job.global_batch, plan) },
            placement: &[devices],
            device_type: &self.device_type,
            cpus: row.cpus,
            co_runners: &[],
            sharing: &Sharing::Alone,
            neighbours: &[],
        };
        let known = self.table.predict(&question).map(|prediction| prediction.step_ns);
        let threads = row.cpus.map(|cpus| format!(" --threads {cpus}")).unwrap_or_default();
        known.with_context(|| {
            format!(
                "the time of a step of {job} is not known; run `profile single {job}{threads} --out runs/alone` first (with the --catalog \
                 of this command, if it has one), and add --table runs/alone; or name a time for all jobs with --step-time"
            )
        })
    }
}
