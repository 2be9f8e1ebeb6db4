//! Compiles the C++ shim and writes into every program of this package where libtorch is found at run time.

use std::path::{Path, PathBuf};

fn main() {
    // torch-sys has `links = "tch"` and publishes which libtorch it found.
    let library_folder = PathBuf::from(
        std::env::var_os("DEP_TCH_LIBTORCH_LIB").expect("torch-sys publishes the folder of its libtorch"),
    );
    let include = library_folder.parent().expect("the folder is called lib").join("include");

    println!("cargo:rerun-if-changed=shim");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        // libtorch's headers come as system headers: their warnings are not ours.
        .flag("-isystem")
        .flag(&include)
        .flag("-isystem")
        .flag(include.join("torch/csrc/api/include"))
        .files(
            [
                "error",
                "library",
                "memory",
                "autograd",
                "optimizer",
                "activation",
                "event",
                "transfer",
                "meta",
                "recompute",
            ]
            .map(|file| format!("shim/{file}.cpp")),
        )
        .compile("torch_worker_shim");
    // The shim must come before the libraries it needs; CUDA is not among them, it is opened at run time.
    println!("cargo:rustc-link-lib=torch_cpu");
    println!("cargo:rustc-link-lib=c10");

    // Searched in this order: beside the installed program, then where it was built.
    for folder in [Path::new("$ORIGIN/../.libtorch/lib"), Path::new("$ORIGIN/lib"), &library_folder] {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    }
}
