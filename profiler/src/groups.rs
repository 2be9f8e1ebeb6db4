//! Makes the cells and the groups of a run of `profile colocate` from what the user named.

use anyhow::bail;
use colocate::{groups, sharing};
use jobs::{
    catalog_programs,
    cells::{self, Grid},
    plans::{CUDA_CONTEXT_BYTES, Effort, Estimates},
    users_programs::{self, UsersProgram},
    vary::Varied,
    workload_lookup,
};
use record::{group::Group, manifest::Cell};
use schema::{
    catalog::Catalog, device::Device, job::Job, sharing::Sharing, surroundings::Surroundings,
    units::HumanBytes, values::Values,
};

/// Which jobs run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Company {
    /// All jobs that were named, in one group; with values of `--vary`, in one group for each combination of them.
    All,
    /// Every group of this number of jobs. A job may occur more than once in a group.
    Every(usize),
    /// Each job that was named beside each of these.
    Beside(Vec<Job>),
}

/// The jobs, programs and modes that the user named.
pub struct GroupRequest<'a> {
    pub jobs: &'a [Job],
    pub programs: &'a [UsersProgram],
    /// Values for names in the commands of programs of the catalog. `programs` have theirs.
    pub vary: &'a Varied,
    pub surroundings: &'a Surroundings,
    pub company: Company,
    /// Whether each member has separate devices, the next ones of the pool.
    pub apart: bool,
    pub modes: &'a [Sharing],
    pub pool: &'a [Device],
}

impl GroupRequest<'_> {
    /// The number of jobs and programs that were named. A set counts as all of its workloads.
    fn members(&self, catalog: &Catalog) -> anyhow::Result<usize> {
        let of_job =
            |job: &Job| workload_lookup::entries(catalog, &job.workload).map(|entries| entries.len());
        let of_jobs: usize = self.jobs.iter().map(of_job).sum::<anyhow::Result<_>>()?;
        Ok(of_jobs + self.programs.len())
    }
}

/// The cells of all members, without duplicates, and the groups of them, one per company and mode.
///
/// A group that cannot run is kept with the reason: a plan that cannot run, weights for another number of members, members that
/// a device cannot hold together, or a mode that the machine does not offer.
pub fn of(
    catalog: &Catalog,
    request: &GroupRequest,
    estimates: &mut Estimates,
) -> anyhow::Result<(Vec<Cell>, Vec<Group>)> {
    // This comes before memory is estimated, which may take minutes.
    if request.company == Company::All && request.members(catalog)? < 2 {
        bail!("a group needs at least two jobs; name a job twice to run it beside itself");
    }
    let mut cells = Vec::new();
    let mut members = Vec::new();
    for job in request.jobs {
        members.extend(add(&mut cells, of_job(catalog, job, request.vary, request.pool, estimates)?));
    }
    for program in request.programs {
        members.extend(add(
            &mut cells,
            vec![users_programs::cell(program, &request.pool[0], request.surroundings)?],
        ));
    }
    catalog_programs::check(&cells, catalog, request.surroundings)?;
    let companies: Vec<Vec<usize>> = match &request.company {
        Company::All => {
            let with = |values: &Values| {
                members.iter().copied().filter(|&member| agrees(&cells[member], values)).collect()
            };
            request.vary.all_combinations().iter().map(with).collect()
        }
        Company::Every(size) => {
            let kinds = distinct(&members);
            let named = |group: Vec<usize>| group.into_iter().map(|place| kinds[place]).collect();
            groups::of_size(kinds.len(), *size).into_iter().map(named).collect()
        }
        Company::Beside(others) => {
            let mut companies = Vec::new();
            for member in distinct(&members) {
                let beside = cells[member].devices[0].clone();
                for other in others {
                    let other = Job { device: Some(beside.clone()), ..other.clone() };
                    let added =
                        add(&mut cells, of_job(catalog, &other, request.vary, request.pool, estimates)?);
                    companies.extend(added.into_iter().map(|other| vec![member, other]));
                }
            }
            companies
        }
    };
    let (cells, companies) = if request.apart {
        apart(catalog, &cells, &companies, request, estimates)?
    } else {
        (cells, companies)
    };
    let mut all = Vec::new();
    for company in &companies {
        let members: Vec<&Cell> = company.iter().map(|&member| &cells[member]).collect();
        all.extend(request.modes.iter().map(|mode| group(&members, mode, estimates)));
    }
    Ok((cells, all))
}

/// Whether a cell has the values of a combination. A cell whose command has none of the names has them.
fn agrees(cell: &Cell, values: &Values) -> bool {
    cell.vary.iter().all(|(name, value)| values.get(name) == Some(value))
}

fn of_job(
    catalog: &Catalog,
    job: &Job,
    vary: &Varied,
    pool: &[Device],
    estimates: &mut Estimates,
) -> anyhow::Result<Vec<Cell>> {
    // Whether members fit together depends on the memory of each.
    let grid = Grid { effort: Effort::Measure, vary: vary.clone(), ..Grid::default() };
    cells::alone(catalog, std::slice::from_ref(job), &grid, pool, Some(estimates))
}

/// The same companies, with cells on separate devices in the order of the pool.
fn apart(
    catalog: &Catalog,
    cells: &[Cell],
    companies: &[Vec<usize>],
    request: &GroupRequest,
    estimates: &mut Estimates,
) -> anyhow::Result<(Vec<Cell>, Vec<Vec<usize>>)> {
    let pool = request.pool;
    let mut placed = Vec::new();
    let mut moved = Vec::new();
    for company in companies {
        let mut free = pool;
        let mut members = Vec::new();
        for &member in company {
            let cell = &cells[member];
            let Some((devices, rest)) = free.split_at_checked(ranks(cell)) else {
                let wanted: usize = company.iter().map(|&member| ranks(&cells[member])).sum();
                bail!(
                    "--apart: a group needs {wanted} devices, and there are {}; name more with --device",
                    pool.len()
                );
            };
            free = rest;
            let on_devices = match &cell.command {
                Some(argv) if cell.plan.is_none() => {
                    let program = UsersProgram {
                        name: cell.workload.clone(),
                        argv: argv.clone(),
                        values: cell.vary.clone(),
                        global_batch: cell.global_batch,
                    };
                    vec![users_programs::cell(&program, &devices[0], request.surroundings)?]
                }
                _ => of_job(catalog, &job(cell), &Varied::of(&cell.vary), devices, estimates)?,
            };
            members.extend(add(&mut placed, on_devices));
        }
        moved.push(members);
    }
    Ok((placed, moved))
}

/// The number of devices that a cell needs, which may be more than it was given.
fn ranks(cell: &Cell) -> usize {
    cell.plan.as_ref().map_or(1, |plan| plan.ranks() as usize)
}

/// The job of a cell, without its devices.
fn job(cell: &Cell) -> Job {
    let Cell { workload, global_batch, plan, .. } = cell;
    Job { workload: workload.clone(), global_batch: *global_batch, plan: *plan, device: None }
}

/// Adds the cells that are not there yet, and returns the positions of all of them.
fn add(cells: &mut Vec<Cell>, more: Vec<Cell>) -> Vec<usize> {
    let mut places = Vec::new();
    for cell in more {
        let known = cells.iter().position(|other| other.name == cell.name);
        places.push(known.unwrap_or(cells.len()));
        if known.is_none() {
            cells.push(cell);
        }
    }
    places
}

fn distinct(members: &[usize]) -> Vec<usize> {
    let mut distinct = members.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

fn group(members: &[&Cell], mode: &Sharing, estimates: &mut Estimates) -> Group {
    let mut group = groups::group(members, mode);
    if group.unsupported.is_none() {
        let devices: Vec<Device> = members.iter().flat_map(|cell| cell.devices.clone()).collect();
        group.unsupported = sharing::backend(mode, &devices)
            .probe()
            .err()
            .or_else(|| does_not_fit(members, |device| estimates.capacity(device)));
    }
    group
}

/// Returns why a device cannot hold all members at once, as far as their peaks are known. In every mode all members are loaded,
/// including those that wait for their turn.
fn does_not_fit(members: &[&Cell], mut capacity: impl FnMut(&Device) -> Option<u64>) -> Option<String> {
    let ranks = || members.iter().flat_map(|cell| cell.devices.iter().map(move |device| (cell, device)));
    let mut devices: Vec<&Device> = ranks().map(|(_, device)| device).collect();
    devices.sort();
    devices.dedup();
    devices.into_iter().find_map(|device| {
        let beside = if let Device::Cuda(_) = device { CUDA_CONTEXT_BYTES } else { 0 };
        let of_rank = |(cell, _): (&&Cell, &Device)| Some(cell.memory_estimate_bytes? + beside);
        let needed: u64 = ranks().filter(|(_, other)| *other == device).filter_map(of_rank).sum();
        let capacity = capacity(device).filter(|capacity| needed > *capacity)?;
        Some(format!(
            "its members need {} together and {device} has {}",
            HumanBytes(needed),
            HumanBytes(capacity)
        ))
    })
}

#[cfg(test)]
mod tests {
    use record::manifest::Settings;

    use super::*;

    fn found(jobs: &[&str], company: Company, modes: &[&str]) -> anyhow::Result<(Vec<Cell>, Vec<Group>)> {
        placed(jobs, company, false, modes)
    }

    fn placed(
        jobs: &[&str],
        company: Company,
        apart: bool,
        modes: &[&str],
    ) -> anyhow::Result<(Vec<Cell>, Vec<Group>)> {
        let jobs: Vec<Job> = jobs.iter().map(|job| job.parse().expect("a job")).collect();
        let modes: Vec<Sharing> = modes.iter().map(|mode| mode.parse().expect("a mode")).collect();
        let pool = [Device::Cpu(vec![0]), Device::Cpu(vec![1])];
        let surroundings = &Surroundings::default();
        let (modes, vary) = (&modes, &Varied::default());
        let request = GroupRequest {
            jobs: &jobs,
            programs: &[],
            vary,
            surroundings,
            company,
            apart,
            modes,
            pool: &pool,
        };
        of(&Catalog::embedded(), &request, &mut Estimates::new(&Settings::default(), 1))
    }

    fn names(groups: &[Group]) -> Vec<String> {
        let short = |name: &String| {
            let job = name.replace("synthetic-", "").replace("@b32@dp1", "");
            job.replace("@on=cpu:0", "")
        };
        groups.iter().map(|group| group.members.iter().map(short).collect::<Vec<_>>().join("+")).collect()
    }

    #[test]
    fn all_jobs_are_one_group_and_a_job_named_twice_is_one_cell() {
        let jobs = ["synthetic-spin", "synthetic-sleep@on=cpu:1", "synthetic-spin@b32"];
        let (cells, groups) = found(&jobs, Company::All, &["time-slice", "sequential"]).expect("groups");
        assert_eq!(cells.len(), 2);
        assert_eq!(names(&groups), ["spin+sleep@on=cpu:1+spin"; 2]);
        assert_ne!(groups[0].sharing, groups[1].sharing);
        let error = found(&["synthetic-spin"], Company::All, &["time-slice"]).expect_err("refused");
        assert!(error.to_string().contains("name a job twice"), "{error}");
    }

    #[test]
    fn every_group_of_a_size_is_there_once() {
        let jobs = ["synthetic-spin", "synthetic-sleep", "synthetic-spin"];
        let (_, groups) = found(&jobs, Company::Every(2), &["time-slice"]).expect("groups");
        assert_eq!(names(&groups), ["spin+spin", "spin+sleep", "sleep+sleep"]);
    }

    #[test]
    fn members_that_are_apart_take_the_next_devices_each() {
        let jobs = ["synthetic-spin", "synthetic-sleep"];
        let (cells, groups) = placed(&jobs, Company::Every(2), true, &["time-slice"]).expect("groups");
        let expected = ["spin+spin@on=cpu:1", "spin+sleep@on=cpu:1", "sleep+sleep@on=cpu:1"];
        assert_eq!((cells.len(), names(&groups)), (4, expected.map(str::to_owned).into()));
        for (first, devices) in [("synthetic-spin@dp2", 3), ("synthetic-spin@dp4", 5)] {
            let error = placed(&[first, "synthetic-sleep"], Company::All, true, &["time-slice"]);
            let message =
                format!("--apart: a group needs {devices} devices, and there are 2; name more with --device");
            assert_eq!(error.expect_err("there are two devices").to_string(), message);
        }
    }

    #[test]
    fn each_job_stands_beside_each_of_the_others_on_its_own_device() {
        let beside: Vec<Job> =
            ["synthetic-sleep@b1", "synthetic-sleep@b2"].map(|job| job.parse().unwrap()).into();
        let jobs = ["synthetic-spin", "synthetic-spin@on=cpu:1"];
        let (cells, groups) = found(&jobs, Company::Beside(beside), &["time-slice"]).expect("groups");
        assert_eq!((cells.len(), groups.len()), (6, 4));
        assert!(
            groups[3].name.ends_with("spin@b32@dp1@on=cpu:1+synthetic-sleep@b2@dp1@on=cpu:1"),
            "{groups:?}"
        );
    }

    #[test]
    fn members_that_no_device_holds_together_are_refused() {
        let cell = |device: Device, memory_estimate_bytes| Cell {
            name: "x".into(),
            sharing: Sharing::Alone,
            job: "x".into(),
            workload: "x".into(),
            command: None,
            all_reduce_bytes: None,
            global_batch: None,
            plan: None,
            devices: vec![device],
            memory_estimate_bytes,
            unsupported: None,
            ..Cell::default()
        };
        let core = |number| Device::Cpu(vec![number]);
        let gib = 1u64 << 30;
        let reason = |cells: &[Cell]| {
            does_not_fit(&cells.iter().collect::<Vec<_>>(), |device| match device {
                Device::Cuda(_) => Some(8 * gib),
                _ => Some(4 * gib),
            })
        };
        assert_eq!(reason(&[cell(core(0), Some(2 * gib)), cell(core(0), Some(2 * gib))]), None);
        assert_eq!(reason(&[cell(core(0), Some(3 * gib)), cell(core(1), Some(3 * gib))]), None);
        assert_eq!(
            reason(&[cell(core(0), None), cell(core(0), Some(3 * gib))]),
            None,
            "not known is no reason"
        );
        let refused = reason(&[cell(core(0), Some(3 * gib)), cell(core(0), Some(2 * gib))]);
        assert_eq!(refused.as_deref(), Some("its members need 5.00 GiB together and cpu:0 has 4.00 GiB"));
        // On a GPU each has a context of its own.
        let gpu = |gib_of_tensors| cell(Device::Cuda(0), Some(gib_of_tensors * gib));
        assert_eq!(reason(&[gpu(3), gpu(3)]), None);
        assert!(reason(&[gpu(3), gpu(4)]).is_some());
    }
}
