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
                _ => of_job(catalog, &job(cell), &Varied::from_values(&cell.vary), devices, estimates)?,
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
mod tests;
