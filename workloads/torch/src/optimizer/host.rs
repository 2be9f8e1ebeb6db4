//! Updates in host memory (`offload`): gradients are copied down, the CPU steps, parameters are copied up,
//! chunk by chunk.
//!
//! While the CPU steps one chunk, the gradients of later ones still come down and the parameters of earlier
//! ones go up. This is the overlap of ZeRO-Offload (Ren et al., USENIX ATC 2021), without its delayed
//! update, so that the result is that of an update on the device. On a CPU device the same loop runs with
//! synchronous copies.

use tch::{TchError, Tensor};

use super::{
    chunks::{self, Piece},
    link::Link,
    rule::Rule,
};
use crate::{
    clock::Phase,
    shim::{
        layout::{gradient_line, line},
        transfer::copy_all,
    },
};

/// The size of a chunk of parameters, and of its gradients. The link is idle while the first chunk's
/// gradients come down and the CPU while the last one's parameters go up, so chunks should be small: 4 MiB
/// take about 0.2 ms at the 25 GB/s of PCIe 4. They should also be large compared with the tens of
/// microseconds for requesting copies, waiting for them and starting threads: the CPU needs a millisecond
/// or more for a million numbers. PyTorch allocates page-locked memory in powers of two, so that another
/// size would waste some.
const CHUNK_BYTES: i64 = 4 << 20;

/// The state of an update in host memory besides the optimizer's.
pub(super) struct Host {
    threads: i32,
    link: Link,
    chunks: Vec<Chunk>,
}

/// Some numbers of the parameters, and their gradients and state: one tensor per piece, each part of a
/// larger one.
struct Chunk {
    pieces: Vec<Piece>,
    /// The master copy of the numbers, which the CPU moves; the device has copies of it.
    master: Vec<Tensor>,
    /// One list per kind of the optimizer's state.
    state: Vec<Vec<Tensor>>,
    numbers: i64,
}

impl Host {
    /// Copies `parameters`, which are of one kind and on one device, to host memory. `state` is the optimizer's, in host
    /// memory: a list for each kind, with a tensor for each parameter in its layout.
    pub(super) fn new(parameters: &[Tensor], state: &[Vec<Tensor>], threads: u32) -> Result<Self, TchError> {
        let first = parameters.first().expect("an update moves at least one parameter");
        let (kind, device) = (first.f_kind()?, first.device());
        assert!(parameters.iter().all(|parameter| parameter.kind() == kind && parameter.device() == device));
        let numbers: Vec<i64> = parameters.iter().map(|parameter| parameter.numel() as i64).collect();
        let bytes_per_number = kind.elt_size_in_bytes() as i64;
        let cut = chunks::cut(&numbers, CHUNK_BYTES / bytes_per_number);
        let link = Link::new(device, cut.len())?;
        let state_lines = state
            .iter()
            .map(|tensors| tensors.iter().map(line).collect::<Result<Vec<_>, _>>())
            .collect::<Result<Vec<_>, _>>()?;
        let chunks = cut
            .into_iter()
            .map(|pieces| {
                let numbers = pieces.iter().map(|piece| piece.count).sum();
                let master = along(&link.line(first, numbers)?, &pieces)?;
                let state =
                    state_lines.iter().map(|lines| parts(lines, &pieces)).collect::<Result<_, _>>()?;
                Ok(Chunk { pieces, master, state, numbers })
            })
            .collect::<Result<_, TchError>>()?;
        let host = Self { threads: i32::try_from(threads.max(1)).unwrap_or(i32::MAX), link, chunks };
        host.reload(parameters)?;
        Ok(host)
    }

    /// Reads `parameters` again after something else than an update has written them. It does not wait for
    /// a GPU, because the next update waits for all work that was queued before its gradients.
    pub(super) fn reload(&self, parameters: &[Tensor]) -> Result<(), TchError> {
        let lines = parameters.iter().map(line).collect::<Result<Vec<_>, _>>()?;
        self.chunks.iter().try_for_each(|chunk| copy_all(&chunk.master, &parts(&lines, &chunk.pieces)?))
    }

    /// Moves `parameters` along their gradients. `lap` receives the phase of the time since its last call.
    pub(super) fn step(
        &mut self,
        parameters: &[Tensor],
        rule: &Rule,
        count: Option<&Tensor>,
        lap: &mut dyn FnMut(Phase) -> Result<(), TchError>,
    ) -> Result<(), TchError> {
        // The time until here is that of clipping the gradients, if anything.
        lap(Phase::Optimizer)?;
        // Set once per update and not for every chunk, because a change restarts the threads. On a CPU
        // device they also make the copies.
        let _threads = Threads::set(self.threads);
        let gradients = parameters.iter().map(gradient_line).collect::<Result<Vec<_>, _>>()?;
        self.link.begin()?;
        let mut coming = Vec::with_capacity(self.chunks.len());
        for (index, chunk) in self.chunks.iter().enumerate() {
            coming.push(chunk.send_down(index, &gradients, parameters, &mut self.link)?);
        }
        let lines = parameters.iter().map(line).collect::<Result<Vec<_>, _>>()?;
        for (index, (chunk, gradients)) in self.chunks.iter().zip(coming).enumerate() {
            self.link.wait_for(index)?;
            lap(Phase::Offload)?;
            rule.apply(&chunk.master, Some(&gradients), &chunk.state, count)?;
            lap(Phase::Optimizer)?;
            self.link.up(&parts(&lines, &chunk.pieces)?, &chunk.master)?;
        }
        self.link.end()?;
        lap(Phase::Offload)
    }
}

impl Chunk {
    /// Requests the gradients of this chunk; returns their destination for each piece, undefined without a
    /// gradient.
    fn send_down(
        &self,
        index: usize,
        gradients: &[Tensor],
        parameters: &[Tensor],
        link: &mut Link,
    ) -> Result<Vec<Tensor>, TchError> {
        let arriving = along(&link.line(&parameters[0], self.numbers)?, &self.pieces)?;
        let mut given = Vec::with_capacity(self.pieces.len());
        let (mut host, mut device) = (Vec::new(), Vec::new());
        for (piece, arriving) in self.pieces.iter().zip(arriving) {
            let gradient = &gradients[piece.parameter];
            if !gradient.defined() {
                given.push(Tensor::new());
                continue;
            }
            host.push(arriving.shallow_clone());
            device.push(piece.of(gradient)?);
            given.push(arriving);
        }
        link.down(index, &host, &device)?;
        Ok(given)
    }
}

impl Piece {
    /// This part of the line of its parameter.
    fn of(&self, line: &Tensor) -> Result<Tensor, TchError> {
        line.f_narrow(0, self.first, self.count)
    }
}

/// These parts of the lines of all parameters.
fn parts(lines: &[Tensor], pieces: &[Piece]) -> Result<Vec<Tensor>, TchError> {
    pieces.iter().map(|piece| piece.of(&lines[piece.parameter])).collect()
}

/// Consecutive places for `pieces` along a line that has exactly this size.
fn along(line: &Tensor, pieces: &[Piece]) -> Result<Vec<Tensor>, TchError> {
    let counts: Vec<i64> = pieces.iter().map(|piece| piece.count).collect();
    line.f_split_with_sizes(&counts[..], 0)
}

/// Sets the number of threads of libtorch on the host while it lives.
struct Threads {
    before: i32,
}

impl Threads {
    fn set(threads: i32) -> Self {
        let before = tch::get_num_threads();
        // libtorch starts and ends threads at every change of their number.
        if threads != before {
            tch::set_num_threads(threads);
        }
        Self { before }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if tch::get_num_threads() != self.before {
            tch::set_num_threads(self.before);
        }
    }
}
