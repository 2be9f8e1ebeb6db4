//! PyTorch's own process groups, one rank's end of them.

use std::{
    ffi::{CString, c_char, c_int},
    path::Path,
    ptr,
    time::Duration,
};

use schema::units::Nanos;
use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::{
    check,
    nccl::{self, MakeNccl},
};

/// What the groups of one process have in common.
#[repr(C)]
struct RawMeeting {
    _opaque: [u8; 0],
}

/// A `c10d::Backend`.
#[repr(C)]
struct RawGroup {
    _opaque: [u8; 0],
}

/// A `c10d::Work`, and when it was finished.
#[repr(C)]
struct RawWork {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn tw_meeting_open(
        make_nccl: Option<MakeNccl>,
        file: *const c_char,
        rank: c_int,
        size: c_int,
        timeout_ms: i64,
        meeting: *mut *mut RawMeeting,
    ) -> c_int;
    fn tw_meeting_delete(meeting: *mut RawMeeting);
    fn tw_group_meet(
        meeting: *mut RawMeeting,
        name: *const c_char,
        rank: c_int,
        size: c_int,
        group: *mut *mut RawGroup,
    ) -> c_int;
    fn tw_group_delete(group: *mut RawGroup);
    fn tw_group_all_reduce(
        group: *mut RawGroup,
        tensor: *const C_tensor,
        is_maximum: c_int,
        work: *mut *mut RawWork,
    ) -> c_int;
    fn tw_group_broadcast(
        group: *mut RawGroup,
        tensor: *const C_tensor,
        root: c_int,
        work: *mut *mut RawWork,
    ) -> c_int;
    fn tw_group_all_gather(
        group: *mut RawGroup,
        whole: *const C_tensor,
        part: *const C_tensor,
        work: *mut *mut RawWork,
    ) -> c_int;
    fn tw_group_reduce_scatter_sum(
        group: *mut RawGroup,
        part: *const C_tensor,
        whole: *const C_tensor,
        work: *mut *mut RawWork,
    ) -> c_int;
    fn tw_group_all_to_all(
        group: *mut RawGroup,
        received: *const C_tensor,
        sent: *const C_tensor,
        work: *mut *mut RawWork,
    ) -> c_int;
    fn tw_group_send(
        group: *mut RawGroup,
        tensor: *const C_tensor,
        to: c_int,
        tag: c_int,
        work: *mut *mut RawWork,
    ) -> c_int;
    fn tw_group_recv(
        group: *mut RawGroup,
        tensor: *const C_tensor,
        from: c_int,
        tag: c_int,
        work: *mut *mut RawWork,
    ) -> c_int;
    fn tw_group_barrier(group: *mut RawGroup, work: *mut *mut RawWork) -> c_int;
    fn tw_work_wait(work: *mut RawWork) -> c_int;
    fn tw_work_is_done(work: *const RawWork, done: *mut c_int) -> c_int;
    fn tw_work_finished_ns(work: *const RawWork) -> i64;
    fn tw_work_delete(work: *mut RawWork);
}

/// The meeting place of the ranks of a job, from which they form groups.
pub struct Meeting(*mut RawMeeting);

// SAFETY: the store and the sockets lock what they share with threads, and no part of them belongs to one thread.
unsafe impl Send for Meeting {}

impl Meeting {
    /// Opens the meeting place of `size` ranks whose groups use Gloo, over sockets of the loopback interface. `file` is the
    /// same for all of them and used for nothing before; some of it may be left afterwards. `timeout` limits every meeting
    /// and every collective.
    ///
    /// # Errors
    /// When the file was met in before, or cannot be written.
    pub fn open_gloo(file: &Path, rank: u32, size: u32, timeout: Duration) -> Result<Self, TchError> {
        Self::open(None, file, rank, size, timeout)
    }

    /// As [`Meeting::open_gloo`] for groups that use NCCL. Each rank has a GPU of its own, number 0 of those it sees.
    ///
    /// No machine at hand has two GPUs: this was compiled, and opened where there is no GPU, and never run on any.
    ///
    /// # Errors
    /// As [`Meeting::open_gloo`], and where there is no NCCL ([`super::nccl::find`]).
    pub fn open_nccl(file: &Path, rank: u32, size: u32, timeout: Duration) -> Result<Self, TchError> {
        let make_nccl = nccl::find().map_err(TchError::Torch)?;
        Self::open(Some(make_nccl), file, rank, size, timeout)
    }

    fn open(
        make_nccl: Option<MakeNccl>,
        file: &Path,
        rank: u32,
        size: u32,
        timeout: Duration,
    ) -> Result<Self, TchError> {
        let file = CString::new(file.as_os_str().as_encoded_bytes())?;
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let (rank, size, mut meeting) = (number(rank), number(size), ptr::null_mut());
        // SAFETY: the path is borrowed for the length of the call, the last pointer is that of a local variable, and the
        // function is that of nccl.cpp.
        check(unsafe { tw_meeting_open(make_nccl, file.as_ptr(), rank, size, timeout_ms, &mut meeting) })?;
        Ok(Self(meeting))
    }

    /// Forms the group `name` of `size` ranks, in which this one is number `rank`. With Gloo it returns when all of them
    /// are connected; NCCL connects in the first collective.
    ///
    /// # Errors
    /// When not all have come before the timeout.
    pub fn form(&self, name: &str, rank: u32, size: u32) -> Result<ProcessGroup, TchError> {
        let name = CString::new(name)?;
        let mut group = ptr::null_mut();
        // SAFETY: the meeting is alive, the name is borrowed for the length of the call, and the last pointer is that of a
        // local variable.
        check(unsafe { tw_group_meet(self.0, name.as_ptr(), number(rank), number(size), &mut group) })?;
        Ok(ProcessGroup(group))
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        // SAFETY: `open` made it and there is no other owner; groups keep what they need of it.
        unsafe { tw_meeting_delete(self.0) }
    }
}

/// One rank's part of a process group. Collectives take `&mut self`, because every rank must start the same
/// ones in one order.
pub struct ProcessGroup(*mut RawGroup);

// SAFETY: the group locks the state that its threads share with callers, and no part of it belongs to one
// thread.
unsafe impl Send for ProcessGroup {}

impl ProcessGroup {
    /// Replaces `tensor` by the sum over all ranks, or by the maximum.
    ///
    /// # Errors
    /// As for all collectives, a tensor that the backend does not support. The work reports errors of other ranks.
    pub fn all_reduce(&mut self, tensor: &Tensor, is_maximum: bool) -> Result<Work, TchError> {
        // SAFETY: group and tensor are alive; the work holds the tensor itself for as long as it needs it.
        Work::start(|work| unsafe {
            tw_group_all_reduce(self.0, tensor.as_ptr(), c_int::from(is_maximum), work)
        })
    }

    /// Replaces `tensor` by that of rank `root`.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn broadcast(&mut self, tensor: &Tensor, root: u32) -> Result<Work, TchError> {
        // SAFETY: as in `all_reduce`.
        Work::start(|work| unsafe { tw_group_broadcast(self.0, tensor.as_ptr(), number(root), work) })
    }

    /// Fills `whole` with the `part`s of all ranks in the order of their ranks.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn all_gather(&mut self, whole: &Tensor, part: &Tensor) -> Result<Work, TchError> {
        // SAFETY: as in `all_reduce`.
        Work::start(|work| unsafe { tw_group_all_gather(self.0, whole.as_ptr(), part.as_ptr(), work) })
    }

    /// Fills `part` with this rank's part of the sum of all ranks' `whole`s.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn reduce_scatter_sum(&mut self, part: &Tensor, whole: &Tensor) -> Result<Work, TchError> {
        // SAFETY: as in `all_reduce`.
        Work::start(|work| unsafe {
            tw_group_reduce_scatter_sum(self.0, part.as_ptr(), whole.as_ptr(), work)
        })
    }

    /// Fills `received` with this rank's part of every rank's `sent`, in the order of ranks. Both are cut into equal parts.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn all_to_all(&mut self, received: &Tensor, sent: &Tensor) -> Result<Work, TchError> {
        // SAFETY: as in `all_reduce`.
        Work::start(|work| unsafe { tw_group_all_to_all(self.0, received.as_ptr(), sent.as_ptr(), work) })
    }

    /// Sends `tensor` to rank `to`, which must call [`ProcessGroup::recv`] with the same tag.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn send(&mut self, tensor: &Tensor, to: u32, tag: u32) -> Result<Work, TchError> {
        // SAFETY: as in `all_reduce`.
        Work::start(|work| unsafe { tw_group_send(self.0, tensor.as_ptr(), number(to), number(tag), work) })
    }

    /// Replaces `tensor` by the one that rank `from` sends under the same tag.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn recv(&mut self, tensor: &Tensor, from: u32, tag: u32) -> Result<Work, TchError> {
        // SAFETY: as in `all_reduce`.
        Work::start(|work| unsafe { tw_group_recv(self.0, tensor.as_ptr(), number(from), number(tag), work) })
    }

    /// Work that is done when all ranks have reached this point.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn barrier(&mut self) -> Result<Work, TchError> {
        // SAFETY: as in `all_reduce`.
        Work::start(|work| unsafe { tw_group_barrier(self.0, work) })
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // SAFETY: `form` made it and there is no other owner; work in progress keeps what it needs.
        unsafe { tw_group_delete(self.0) }
    }
}

/// A collective that was started. Its tensors must not be used until it was waited for; it keeps them
/// alive. Without a wait a reduce-scatter of Gloo leaves no result, and its sends and receives are given up.
#[must_use = "what was not waited for may have failed, or not be done"]
pub struct Work(*mut RawWork);

// SAFETY: c10d's work locks what it shares with the threads of its group, and any thread may wait for it.
unsafe impl Send for Work {}

impl Work {
    fn start(collective: impl FnOnce(*mut *mut RawWork) -> c_int) -> Result<Self, TchError> {
        let mut work = ptr::null_mut();
        check(collective(&mut work))?;
        Ok(Self(work))
    }

    /// Waits for the end of the work. With NCCL, makes the device wait before it executes later work.
    ///
    /// # Errors
    /// libtorch's message, if another rank has gone, did not come in time, or started something else.
    pub fn wait(&self) -> Result<(), TchError> {
        // SAFETY: the work is ours and alive.
        check(unsafe { tw_work_wait(self.0) })
    }

    /// Whether it has ended, well or not, without waiting. For a reduce-scatter and for sends between
    /// ranks, Gloo only knows after a wait.
    pub fn is_done(&self) -> bool {
        let mut done = 0;
        // SAFETY: the work is ours and alive; the pointer is that of a local number.
        let asked = check(unsafe { tw_work_is_done(self.0, &mut done) });
        // A later wait returns the error.
        asked.is_err() || done != 0
    }

    /// The time of its end on the host's `CLOCK_MONOTONIC`. `None` until then, and always if the host does
    /// not learn it: with NCCL, for a reduce-scatter, and for sends between ranks.
    pub fn finished_at(&self) -> Option<Nanos> {
        // SAFETY: the work is ours and alive.
        let finished_ns = unsafe { tw_work_finished_ns(self.0) };
        (finished_ns > 0).then_some(Nanos(finished_ns as u64))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // SAFETY: `start` made it and there is no other owner.
        unsafe { tw_work_delete(self.0) }
    }
}

/// Converts a rank or a tag.
fn number(value: u32) -> c_int {
    c_int::try_from(value).expect("ranks and tags are small")
}
