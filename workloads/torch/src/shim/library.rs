//! Which libtorch this is, and its switches.

use std::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    fn tw_libtorch_version() -> *const c_char;
    fn tw_flush_denormals() -> c_int;
    fn tw_leave(code: c_int) -> !;
}

/// The version of libtorch this program was built against and needs, as `2.11.0`.
pub fn libtorch_version() -> &'static str {
    // SAFETY: a string literal of the shim.
    unsafe { CStr::from_ptr(tw_libtorch_version()) }.to_str().expect("a version is ASCII")
}

/// Makes denormal numbers count as zero, on this thread and on those started by it later; `false` where the processor cannot.
///
/// Call before the first parallel operation. The moments of rarely used embedding rows decay into denormal numbers,
/// and arithmetic on those is many times slower: without this a launch would slow down as it goes.
pub fn flush_denormals() -> bool {
    // SAFETY: sets a flag of this thread.
    unsafe { tw_flush_denormals() != 0 }
}

/// Ends the process at once with this exit code. Written data stays written, and nothing is torn down.
///
/// At an ordinary exit libtorch and CUDA's libraries destroy their objects. This uses a device that may be
/// in error, and can throw, which aborts, or wait. The kernel frees everything in either case.
pub fn leave(code: u8) -> ! {
    // SAFETY: takes a plain number, and no other thread of this program has work to finish.
    unsafe { tw_leave(c_int::from(code)) }
}
