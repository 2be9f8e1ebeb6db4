//! The description of the host for the manifest. It is an allow-list, so that a record contains no name of a host or a user.

use std::collections::BTreeMap;

use record::{manifest::Machine, run_dir::RunDir};

/// Turns TF32 off in NVIDIA's libraries where it is 0, whatever a program asks for.
pub const NVIDIA_OVERRIDE: &str = "NVIDIA_TF32_OVERRIDE";

/// Turns TF32 on in PyTorch for products of matrices where it is 1.
pub const TORCH_OVERRIDE: &str = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE";

/// Environment variables that change how a worker computes.
const ENVIRONMENT: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "MALLOC_ARENA_MAX",
    "MKL_NUM_THREADS",
    NVIDIA_OVERRIDE,
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "PYTORCH_CUDA_ALLOC_CONF",
    TORCH_OVERRIDE,
];

/// Reads the facts of the host; those that cannot be read are `None`.
pub fn facts(libtorch: Option<String>, driver: Option<String>) -> Machine {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    Machine {
        cpu: field(&cpuinfo, "model name"),
        cores: std::thread::available_parallelism().ok().map(|n| n.get() as u32),
        memory_bytes: memory_bytes(&memory),
        kernel: Some(kernel),
        boot_id: boot_id(),
        hypervisor: field(&cpuinfo, "flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        driver,
        cuda: rig::device::cuda::version().ok(),
        libtorch,
        environment: ENVIRONMENT
            .iter()
            .filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)))
            .collect::<BTreeMap<_, _>>(),
    }
}

/// The random name of this boot of the kernel, from which the monotonic clock counts.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_string())
}

/// The reason to doubt that this is the machine and the boot of a run, whose last part began in the boot `began_in`.
pub fn doubt_about_boot(run: &RunDir, began_in: Option<&str>) -> Option<String> {
    let path = run.path().display();
    let is_other = boot_id().as_deref() != began_in;
    is_other.then(|| format!("{path} was begun before this machine was restarted, or on another machine"))
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    })
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_memory_is_in_bytes() {
        let text = "processor\t: 0\nmodel name\t: A CPU\nmodel name\t: B\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A CPU"));
        assert_eq!(field(text, "model"), None);
        assert_eq!(memory_bytes("MemTotal:       24 kB\n"), Some(24 * 1024));
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn this_machine_says_something_and_no_name_of_it() {
        let machine = facts(None, None);
        assert!(machine.cores.is_some() && machine.kernel.is_some());
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let text = format!("{machine:?}");
        assert!(host.is_empty() || host == "localhost" || !text.contains(&host), "{text}");
    }
}
