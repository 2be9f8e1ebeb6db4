//! A scripted stand-in for NVIDIA's driver, `libnvidia-ml.so.1` and `libcuda.so`, for tests.
//!
//! The shared library exports the functions of NVML and CUDA that the profiler calls, and answers them from
//! a script, so that a machine without a GPU can test everything including the loading of libraries. This
//! crate is also an ordinary library for the tests: [`install`] puts a copy of the shared library with its
//! script into a folder. The loader treats each copy as a separate library, so that tests in one process do
//! not see each other's devices.
#![expect(unsafe_code, reason = "a C library is a list of exported functions that take raw pointers")]

mod cuda;
mod exports;
mod gpm;
mod link;
mod machine;
mod processes;
mod script;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use script::{CudaScript, DeviceScript, Reading, RunningProcess, Script, UtilizationSample};

/// The suffix of a copy's script after the copy's own name.
const SCRIPT_EXTENSION: &str = "script.toml";

/// One device on which every metric of the profiler has an answer, shaped after an H200.
pub const H200: &str = include_str!("../h200.toml");

/// Puts a copy of the shared library into `dir`, with answers from `script` (TOML, see [`Script`]), and
/// returns the path for the loader of NVML.
///
/// A program that looks for libraries in `dir` finds CUDA there too. Both names are the same file and
/// therefore one library to the loader, so that NVML counts copies made through CUDA.
pub fn install(dir: &Path, script: &str) -> io::Result<PathBuf> {
    let copy = dir.join("libnvidia-ml.so.1");
    std::fs::copy(library_path(), &copy)?;
    std::fs::write(script_of(&copy), script)?;
    match std::os::unix::fs::symlink("libnvidia-ml.so.1", dir.join("libcuda.so")) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(copy),
    }
}

/// The place where cargo left the shared library, beside the test that depends on this crate.
///
/// Panics if it is missing, because the caller is then no program that cargo built.
pub fn library_path() -> PathBuf {
    let program = std::env::current_exe().expect("a running program has a path");
    let name = format!("{}fake_driver{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let folders = program.ancestors().skip(1).take(2).flat_map(|dir| [dir.to_path_buf(), dir.join("deps")]);
    let mut candidates = folders.map(|dir| dir.join(&name));
    candidates.find(|path| path.exists()).unwrap_or_else(|| panic!("no {name} beside {}", program.display()))
}

fn script_of(library: &Path) -> PathBuf {
    let mut path = library.as_os_str().to_os_string();
    path.push(".");
    path.push(SCRIPT_EXTENSION);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_h200_answers_every_metric_that_the_library_knows() {
        let script: Script = toml::from_str(H200).unwrap();
        for metric in machine::METRICS {
            assert!(script.device[0].metrics.contains_key(*metric), "h200.toml lacks {metric}");
        }
    }

    #[test]
    fn a_script_with_a_slip_of_the_hand_is_refused() {
        for (script, complaint) in [
            ("[[device]]\nname = 'x'\nmemory_byte = 5", "unknown field `memory_byte`"),
            (
                "[[device]]\nname = 'x'\nmemory_bytes = 5\n[device.metrics]\nenrgy_mj = {}",
                "no metric 'enrgy_mj'",
            ),
            (
                "[[device]]\nname = 'x'\nmemory_bytes = 5\n[device.metrics]\nenergy_mj = { error = 'bad' }",
                "'bad'",
            ),
        ] {
            let error = Script::parse(script).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
    }
}
