//! Variables by which launchers of parallel programs tell a process its rank.

use std::{env, ffi::OsString};

use schema::wire::{TANDEM_CONTROL, TANDEM_EVENTS, TANDEM_OPERATORS, TANDEM_SPEC};

use super::preload::TANDEM_HOOK;

/// Variables of torchrun, of MPI and its process managers (MPICH, Intel MPI, MVAPICH, Open MPI), of Slurm's steps and of Tandem. Those of
/// Slurm's jobs, as SLURM_JOB_ID, say what a program may use and are no part of the list.
const NAMES: [&str; 36] = [
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_FIRST_RANKS",
    "OMPI_UNIVERSE_SIZE",
    "SLURM_GTIDS",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_LOCALID",
    "SLURM_MPI_TYPE",
    "SLURM_NODEID",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_PMI_FD",
    "SLURM_PMIXP_ABORT_AGENT_PORT",
    "SLURM_PROCID",
    "SLURM_STEPID",
    "SLURM_STEPMGR",
    "SLURM_TASKS_PER_NODE",
    "SLURM_TASK_PID",
    TANDEM_SPEC,
    TANDEM_EVENTS,
    TANDEM_CONTROL,
    TANDEM_OPERATORS,
    TANDEM_HOOK,
];

/// How further names begin.
const PREFIXES: [&str; 9] = [
    "TORCHELASTIC_",
    "OMPI_COMM_WORLD_",
    "MV2_COMM_WORLD_",
    "HYDI_",
    "HYDRA_",
    "PMI_",
    "PMIX_",
    "SLURM_SRUN_",
    "SLURM_STEP_",
];

/// The variables of the harness that a program of the user's must not inherit: where the harness is itself a rank of a launcher, the
/// program would act as one of several ranks and wait for the others.
pub(super) fn variables() -> Vec<OsString> {
    env::vars_os().map(|(name, _)| name).filter(|name| name.to_str().is_some_and(is_of_launcher)).collect()
}

fn is_of_launcher(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
