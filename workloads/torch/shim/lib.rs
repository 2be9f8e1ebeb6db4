//! The C++ of torch-worker, which its module `shim` declares and wraps. It is a package of its own so that lints, documentation
//! and builds share one compilation of it, which takes minutes.

/// The library made of `nccl.cpp`; empty if the build did not find the headers of CUDA and NCCL.
pub static NCCL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nccl.so"));
