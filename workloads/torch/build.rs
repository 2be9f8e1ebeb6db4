//! Writes into every program of this package where libtorch is found at run time.

use std::{env, path::Path};

fn main() {
    // torch-sys has `links = "tch"` and publishes which libtorch it found.
    let library_folder =
        env::var_os("DEP_TCH_LIBTORCH_LIB").expect("torch-sys publishes the folder of its libtorch");
    // Searched in this order: beside the installed program, then where it was built.
    for folder in
        [Path::new("$ORIGIN/../.libtorch/lib"), Path::new("$ORIGIN/lib"), Path::new(&library_folder)]
    {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    }
    println!("cargo:rerun-if-changed=build.rs");
}
