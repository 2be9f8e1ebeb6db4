//! The program of a rank, and its environment.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf, absolute},
    process::Stdio,
};

use record::run_dir::RunDir;
use schema::{
    device::{Device, joint},
    spec::{LaunchSpec, Program},
    wire::{TANDEM_CONTROL, TANDEM_EVENTS, TANDEM_OPERATORS, TANDEM_SPEC},
};

use super::{beside::Beside, elsewhere, hook, launchers, preload, surroundings::FilledSurroundings, words};
use crate::{
    device::{DeviceError, uuid},
    leash::RankCommand,
};

/// The paths of the programs that a launch may need.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `profile` itself, which is also the leash and the synthetic worker.
    pub own: PathBuf,
    /// The path of torch-worker, if it is not beside `own`.
    pub torch_worker: Option<PathBuf>,
}

impl Programs {
    /// The running program, with its workers beside it.
    pub fn beside_us() -> io::Result<Programs> {
        Ok(Programs { own: env::current_exe()?, torch_worker: None })
    }

    /// The program and its arguments. `fill` fills in the words of a user's command.
    fn command(&self, program: &Program, fill: impl Fn(&str) -> OsString) -> (PathBuf, Vec<OsString>) {
        match program {
            Program::Command(argv) => {
                let mut argv = argv.iter().map(|word| fill(word));
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

/// The command of rank `rank` of a launch; `stdin` is the source of its commands.
pub(super) fn of_rank(
    programs: &Programs,
    run: &RunDir,
    spec: &LaunchSpec,
    rank: u32,
    stdin: Stdio,
) -> io::Result<RankCommand> {
    let launch = &spec.launch;
    let devices = spec.of_process(rank, &spec.devices);
    let mut environment: Vec<(&'static str, OsString)> =
        visible(devices).map_err(io::Error::other)?.into_iter().collect();
    // The path is absolute, because a program may change its directory.
    let file = |path: &Path| absolute(path).map(OsString::from);
    let mut removed = removed_from_environment();
    let mut surroundings = FilledSurroundings::for_launch(run, spec)?;
    if spec.program.speaks() {
        environment.extend(threads(spec.threads));
        environment.extend([
            ("RANK", rank.to_string().into()),
            ("LOCAL_RANK", rank.to_string().into()),
            ("WORLD_SIZE", spec.devices.len().to_string().into()),
            (TANDEM_EVENTS, file(&run.events_path(launch, rank))?),
            (TANDEM_CONTROL, file(&run.control_path(launch))?),
            (TANDEM_SPEC, file(&run.spec_path(launch))?),
        ]);
    } else {
        removed.extend(launchers::variables());
        environment.extend(spec.threads_named.then(|| threads(spec.threads)).into_iter().flatten());
        if spec.steps_regex.is_none() {
            let folder = absolute(run.hook_path(launch))?;
            // On other hosts and in containers the library may be missing, of which the dynamic linker would complain.
            if matches!(&spec.program, Program::Command(argv) if elsewhere::starter(argv).is_none()) {
                preload::add_to(&mut surroundings.environment, &folder);
            }
            environment.extend([
                hook::environment(&folder, surroundings.variable(hook::PYTHONPATH))?,
                (TANDEM_EVENTS, file(&run.events_path(launch, rank))?),
                (TANDEM_CONTROL, file(&run.control_path(launch))?),
            ]);
            let steps = spec.operators.map(|steps| format!("{}:{}", steps.first, steps.count));
            environment.extend(steps.map(|text| (TANDEM_OPERATORS, text.into())));
        } else {
            // Without this, Python buffers some thousand bytes of lines before it writes them to a file.
            environment.push(("PYTHONUNBUFFERED", "1".into()));
        }
    }
    let (program, arguments) = programs.command(&spec.program, |word| surroundings.word(word));
    let bound_to = joint(spec.of_process(rank, &spec.host_cores)).or(joint(devices));
    Ok(RankCommand {
        program,
        arguments,
        users_environment: surroundings.environment,
        environment,
        removed,
        cwd: surroundings.cwd,
        device: bound_to.unwrap_or(Device::AllCores),
        stdin,
        link: (rank == 0).then(|| absolute(run.control_path(launch))).transpose()?,
        stdout: run.stdout_path(launch, rank),
        stderr: run.stderr_path(launch, rank),
    })
}

/// A user's command before or after the program of a launch. It has the folder, the variables and the cores of the program, but not the
/// step hook.
///
/// # Errors
/// A word in it stands for a path that a shell would split.
pub(super) fn beside(run: &RunDir, spec: &LaunchSpec, beside: Beside, text: &str) -> io::Result<RankCommand> {
    let surroundings = FilledSurroundings::for_launch(run, spec)?;
    words::check_shell(text, run.path())?;
    let filled = surroundings.word(text);
    let devices = spec.of_process(0, &spec.devices);
    let mut environment: Vec<(&'static str, OsString)> =
        visible(devices).map_err(io::Error::other)?.into_iter().collect();
    environment.extend(spec.threads_named.then(|| threads(spec.threads)).into_iter().flatten());
    let log = |stream| run.beside_path(&spec.launch, beside.word(), stream);
    Ok(RankCommand {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), filled],
        users_environment: surroundings.environment,
        environment,
        removed: removed_from_environment().into_iter().chain(launchers::variables()).collect(),
        cwd: surroundings.cwd,
        device: joint(spec.of_process(0, &spec.host_cores)).or(joint(devices)).unwrap_or(Device::AllCores),
        stdin: Stdio::null(),
        link: None,
        stdout: log("out"),
        stderr: log("err"),
    })
}

/// The environment of a worker of Tandem, both for a rank and for a query.
///
/// # Errors
/// The driver does not report the uuid of the device.
pub(crate) fn environment(device: &Device, count: u32) -> Result<Vec<(&'static str, OsString)>, DeviceError> {
    Ok(visible(std::slice::from_ref(device))?.into_iter().chain(threads(count)).collect())
}

/// Makes these devices, and no others, visible to CUDA. Otherwise a program would take the first device of CUDA, and its numbers
/// would be recorded for the wrong device. If the driver does not report the uuid of a device, nothing is started.
fn visible(devices: &[Device]) -> Result<Option<(&'static str, OsString)>, DeviceError> {
    // The uuid is used because an index has another meaning if the user makes only some devices visible, or if CUDA counts the
    // fastest first.
    let of_gpu = |device: &Device| match device {
        Device::Cuda(index) => Some(uuid(*index)),
        Device::Cpu(_) | Device::AllCores => None,
    };
    let uuids: Vec<String> = devices.iter().filter_map(of_gpu).collect::<Result<_, _>>()?;
    Ok((!uuids.is_empty()).then(|| ("CUDA_VISIBLE_DEVICES", uuids.join(",").into())))
}

fn threads(count: u32) -> [(&'static str, OsString); 2] {
    ["OMP_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, count.to_string().into()))
}

/// Variables that are removed from the environment: a rank must not join a server for sharing devices that runs for others.
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
