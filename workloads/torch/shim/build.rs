//! Compiles the C++ shim.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn main() {
    // torch-sys has `links = "tch"` and publishes which libtorch it found.
    let library_folder =
        env::var_os("DEP_TCH_LIBTORCH_LIB").expect("torch-sys publishes the folder of its libtorch");
    let include = Path::new(&library_folder).parent().expect("the folder is called lib").join("include");

    println!("cargo:rerun-if-changed=.");
    compiler(&include).include("gloo-headers").file("all.cpp").compile("torch_worker_shim");
    // The shim must come before the libraries it needs; CUDA is not among them, it is opened at run time.
    println!("cargo:rustc-link-lib=torch_cpu");
    println!("cargo:rustc-link-lib=c10");

    build_nccl(&include);
}

fn compiler(include: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    // libtorch's headers come as system headers: their warnings are not ours.
    build.cpp(true).std("c++17").flag("-isystem").flag(include);
    build.flag("-isystem").flag(include.join("torch/csrc/api/include"));
    build
}

/// Makes the shared library that lib.rs embeds; an empty file where headers of CUDA or NCCL are missing.
fn build_nccl(include: &Path) {
    const HEADERS: [&str; 5] =
        ["nccl.h", "cuda_runtime_api.h", "cusolverDn.h", "crt/host_defines.h", "nv/target"];
    println!("cargo:rerun-if-env-changed=CUDA_HOME");
    // Beside PyTorch, where its wheels put what they have of CUDA, and in NVIDIA's toolkit.
    let packages = include.canonicalize().expect("it was compiled with").join("../..");
    let toolkit = env::var_os("CUDA_HOME").map_or_else(|| PathBuf::from("/usr/local/cuda"), PathBuf::from);
    let folders = [
        packages.join("nvidia/cu13/include"),
        packages.join("nvidia/nccl/include"),
        toolkit.join("include"),
        toolkit.join("include/cccl"),
    ];
    let library = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("nccl.so");
    if !HEADERS.iter().all(|header| folders.iter().any(|folder| folder.join(header).is_file())) {
        return fs::write(library, "").expect("cargo made the folder");
    }
    let mut build = compiler(include);
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        build.flag("-isystem").flag(folder);
    }
    let mut command = build.get_compiler().to_command();
    let status = command.args(["-shared", "-fPIC", "nccl.cpp", "-o"]).arg(library).status();
    assert!(status.is_ok_and(|status| status.success()), "nccl.cpp does not compile");
}
