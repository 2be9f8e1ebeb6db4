//! Which program a rank runs, and what its environment says.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf, absolute},
    process::Stdio,
};

use schema::{
    device::Device,
    run_dir::RunDir,
    spec::{LaunchSpec, Program},
    wire::{WORKER_CONTROL, WORKER_EVENTS, WORKER_SPEC},
};

use super::hook;
use crate::{
    device::{DeviceError, uuid},
    leash::RankCommand,
};

/// What a program of the user's must not inherit from a harness that is a worker itself, or runs under torchrun: it would take
/// itself for one of several ranks and wait for the others.
const OF_WORKERS: [&str; 6] =
    ["RANK", "LOCAL_RANK", "WORLD_SIZE", WORKER_SPEC, WORKER_EVENTS, WORKER_CONTROL];

/// Where the programs are that a launch may need.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `profile` itself, which is the leash and the synthetic worker as well.
    pub own: PathBuf,
    /// Of torch-worker, where it is not beside `own`.
    pub torch_worker: Option<PathBuf>,
}

impl Programs {
    /// The running program, with its workers beside it.
    pub fn beside_us() -> io::Result<Programs> {
        Ok(Programs { own: env::current_exe()?, torch_worker: None })
    }

    fn command(&self, program: &Program) -> (PathBuf, Vec<OsString>) {
        match program {
            Program::Command(argv) => {
                let mut argv = argv.iter().map(OsString::from);
                (argv.next().unwrap_or_default().into(), argv.collect())
            }
            Program::Training(training) => match training.workload.model.worker() {
                "synthetic" => (self.own.clone(), vec!["synthetic-worker".into()]),
                name => (self.torch(name), Vec::new()),
            },
            Program::AllReduce(_) => (self.torch("torch-worker"), Vec::new()),
        }
    }

    fn torch(&self, name: &str) -> PathBuf {
        self.torch_worker.clone().unwrap_or_else(|| self.own.with_file_name(name))
    }
}

/// What rank `rank` of a launch is started as; `stdin` is where its commands come from.
pub(super) fn of_rank(
    programs: &Programs,
    run: &RunDir,
    spec: &LaunchSpec,
    rank: u32,
    stdin: Stdio,
) -> io::Result<RankCommand> {
    let launch = &spec.launch;
    let device = spec.devices[rank as usize].clone();
    let mut environment: Vec<(&'static str, OsString)> =
        visible(&device).map_err(io::Error::other)?.into_iter().collect();
    // Absolute, because a program may change its directory.
    let file = |path: &Path| absolute(path).map(OsString::from);
    let mut removed = removed_from_environment();
    if spec.program.speaks() {
        environment.extend(threads(spec.threads));
        environment.extend([
            ("RANK", rank.to_string().into()),
            ("LOCAL_RANK", rank.to_string().into()),
            ("WORLD_SIZE", spec.devices.len().to_string().into()),
            (WORKER_EVENTS, file(&run.events_path(launch, rank))?),
            (WORKER_CONTROL, file(&run.control_path(launch))?),
            (WORKER_SPEC, file(&run.spec_path(launch))?),
        ]);
    } else {
        removed.extend(OF_WORKERS.map(OsString::from));
        environment.extend(spec.threads_named.then(|| threads(spec.threads)).into_iter().flatten());
        if spec.steps_regex.is_none() {
            environment.extend([
                hook::environment(&absolute(run.hook_path(launch))?)?,
                (WORKER_EVENTS, file(&run.events_path(launch, rank))?),
                (WORKER_CONTROL, file(&run.control_path(launch))?),
            ]);
        } else {
            // Else Python keeps some thousand bytes of lines before it writes them to a file.
            environment.push(("PYTHONUNBUFFERED", "1".into()));
        }
    }
    let (program, arguments) = programs.command(&spec.program);
    let bound_to = spec.host_cores.get(rank as usize).cloned().unwrap_or(device);
    Ok(RankCommand {
        program,
        arguments,
        environment,
        removed,
        device: bound_to,
        stdin,
        stdout: run.stdout_path(launch, rank),
        stderr: run.stderr_path(launch, rank),
    })
}

/// What a worker of ours finds in its environment, whether it is a rank or is asked something.
///
/// # Errors
/// Where the driver does not say which device it is.
pub(crate) fn environment(device: &Device, count: u32) -> Result<Vec<(&'static str, OsString)>, DeviceError> {
    Ok(visible(device)?.into_iter().chain(threads(count)).collect())
}

/// Lets CUDA show the device and no other. Without this a program would take whatever CUDA counts first, and its numbers
/// would be filed under the wrong device: where the driver does not say how the device is called, nothing is started.
fn visible(device: &Device) -> Result<Option<(&'static str, OsString)>, DeviceError> {
    let Device::Cuda(index) = device else { return Ok(None) };
    // By its uuid: numbers mean another device where the user shows CUDA some devices only, and where CUDA counts the
    // fastest first.
    Ok(Some(("CUDA_VISIBLE_DEVICES", uuid(*index)?.into())))
}

fn threads(count: u32) -> [(&'static str, OsString); 2] {
    ["OMP_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, count.to_string().into()))
}

/// What it must not find there: a server for sharing devices that runs for others must not be joined by accident.
pub(crate) fn removed_from_environment() -> Vec<OsString> {
    env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_string_lossy().starts_with("CUDA_MPS_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_cannot_be_named_stops_the_launch() {
        // No machine has so many, whether it has a driver or not.
        let error = environment(&Device::Cuda(9_999), 1).unwrap_err().to_string();
        assert!(error.contains("cuda:9999") || error.starts_with("no NVIDIA driver: "), "{error}");
        let of_cores: Vec<&str> =
            environment(&Device::AllCores, 3).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(of_cores, ["OMP_NUM_THREADS", "MKL_NUM_THREADS"]);
    }
}
