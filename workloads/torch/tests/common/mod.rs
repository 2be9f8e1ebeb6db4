//! The whole libtorch, CUDA included, of a Python installation: a program built against the small one runs with it too.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The folder of its libraries, for `LD_LIBRARY_PATH`, which the dynamic linker searches before what is baked into the
/// program. `None`, with a note on stderr, without such a folder, or with a driver that changes the answers.
pub(crate) fn whole_libtorch_without_driver() -> Option<PathBuf> {
    if Path::new("/dev/nvidiactl").exists() {
        schema::skips::skipped("no-gpu", "this machine has an NVIDIA driver");
        return None;
    }
    let found = env::var_os("TANDEM_CUDA_LIBTORCH").map(PathBuf::from).or_else(of_the_parity_scripts);
    let whole = found.filter(|folder| folder.join("libtorch_cuda.so").exists());
    if whole.is_none() {
        schema::skips::skipped(
            "cuda-libtorch",
            "there is no libtorch with CUDA; name its folder, as ../torch/lib, in TANDEM_CUDA_LIBTORCH",
        );
    }
    whole
}

/// The libraries of the virtual environment that `scripts/` makes for comparisons with PyTorch.
fn of_the_parity_scripts() -> Option<PathBuf> {
    let pythons = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-parity/lib");
    let mut folders = fs::read_dir(pythons).ok()?.flatten().map(|entry| entry.path());
    folders.find_map(|python| python.join("site-packages/torch/lib").canonicalize().ok())
}
