//! Slowdowns of tables of pairs, of any origin.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;
use formats::{
    import::{
        Source,
        pairs::{self, Pair, PairMember},
    },
    interference_fit::JobAlone,
};
use schema::{job::Job, plan::Plan, sharing::Sharing};

use super::together::{Slowdowns, mean};

/// The pairs of tables, each with the type of its device.
#[derive(Debug, Default)]
pub(super) struct PairsTogether(Vec<(String, Pair)>);

/// A job as the model knows it.
type Key = (String, Option<u32>, Option<Plan>);

impl PairsTogether {
    /// Reads a table. Returns the number of its pairs.
    ///
    /// # Errors
    /// The table cannot be read, or neither `device_type` nor a line names the type of its device.
    pub(super) fn read(&mut self, source: Source<'_>, device_type: Option<&str>) -> anyhow::Result<usize> {
        let pairs = pairs::read(source)?;
        let count = pairs.len();
        for pair in pairs {
            let [a, b] = &pair.members;
            let device_type = pair.device_type.as_deref().or(device_type).with_context(|| {
                format!(
                    "{}: the type of the device of '{}' beside '{}' is not known; add the column device_type, or name it with --device-type",
                    source.file.display(),
                    a.job,
                    b.job
                )
            })?;
            self.0.push((device_type.to_owned(), pair));
        }
        Ok(count)
    }

    pub(super) fn device_types(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(device_type, _)| device_type.as_str())
    }

    /// Keeps the pairs on devices of a type. Returns the number of the others.
    pub(super) fn retain(&mut self, device_type: &str) -> usize {
        let before = self.0.len();
        self.0.retain(|(of_pair, _)| of_pair == device_type);
        before - self.0.len()
    }

    /// Adds the jobs of the pairs, and their slowdowns. Each line is a block. What launches tell of a job alone is preferred to what
    /// tables tell.
    pub(super) fn add_to(&self, jobs: &mut Vec<JobAlone>, slowdowns: &mut BTreeMap<Sharing, Slowdowns>) {
        let places = self.add_jobs(jobs);
        for (_, Pair { sharing, members: [a, b], .. }) in &self.0 {
            let [place_a, place_b] = [a, b].map(|member| places[&key(&member.job)]);
            let [log_a, log_b] = [a, b].map(|member| member.slowdown.ln());
            let own = slowdowns.entry(sharing.clone()).or_default();
            let mut add = |job, beside, log| own.entry((job, vec![beside])).or_default().push(log);
            if place_a == place_b {
                // Two members that are the same job count as one.
                add(place_a, place_a, (log_a + log_b) / 2.0);
            } else {
                add(place_a, place_b, log_a);
                add(place_b, place_a, log_b);
            }
        }
    }

    /// Adds the jobs that are not among those of launches. Returns the places of all.
    fn add_jobs(&self, jobs: &mut Vec<JobAlone>) -> HashMap<Key, usize> {
        let known = jobs.iter().enumerate();
        let mut places: HashMap<Key, usize> =
            known.map(|(place, job)| ((job.workload.clone(), job.global_batch, job.plan), place)).collect();
        let mut of_tables: Vec<Vec<&PairMember>> = Vec::new();
        let first = jobs.len();
        for member in self.0.iter().flat_map(|(_, pair)| &pair.members) {
            let next = first + of_tables.len();
            let place = *places.entry(key(&member.job)).or_insert(next);
            if place == next {
                of_tables.push(Vec::new());
            }
            if place >= first {
                of_tables[place - first].push(member);
            }
        }
        jobs.extend(of_tables.iter().filter_map(|members| job(members)));
        places
    }
}

fn key(job: &Job) -> Key {
    (job.workload.clone(), job.global_batch, job.plan)
}

/// What tables tell of a job alone.
fn job(members: &[&PairMember]) -> Option<JobAlone> {
    let first = members.first()?;
    let mean =
        |value: fn(&PairMember) -> Option<f64>| mean(members.iter().filter_map(|member| value(member)));
    let log_s = mean(|member| member.alone_s.map(f64::ln));
    Some(JobAlone {
        workload: first.job.workload.clone(),
        global_batch: first.job.global_batch,
        plan: first.job.plan,
        family: first.family.clone(),
        step_ns: log_s.map(|log_s| (log_s.exp() * 1e9).round() as u64),
        busy: mean(|member| member.busy),
        host: None,
        traffic: mean(|member| member.traffic),
        peak_memory_bytes: members.iter().filter_map(|member| member.peak_memory_bytes).max(),
    })
}
