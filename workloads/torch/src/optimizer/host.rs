//! Updates made in host memory (`offload`): gradients go down, the CPU steps, parameters go up, chunk by chunk.
//!
//! While the CPU steps one chunk, the gradients of later ones still come down and the parameters of earlier ones go up:
//! the overlap of ZeRO-Offload (Ren et al., USENIX ATC 2021), without its delayed update, so that the result is that of an
//! update on the device. On a CPU device the same loop runs and copies are made when they are asked for.

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

/// The size of a chunk of parameters, and of the gradients that belong to them. A link is idle while the first chunk's
/// gradients come down and the CPU while the last one's parameters go up, so chunks are small; 4 MiB take about 0.2 ms at
/// the 25 GB/s of PCIe 4. And they are large beside the tens of microseconds that asking for copies, waiting for them and
/// starting threads cost: the CPU needs a millisecond or more for the million numbers. PyTorch's page-locked memory comes in
/// powers of two, so a chunk of another size would waste some.
const CHUNK_BYTES: i64 = 4 << 20;

/// What an update in host memory needs beside the optimizer's state.
pub(super) struct Host {
    threads: i32,
    link: Link,
    chunks: Vec<Chunk>,
}

/// Some of the numbers of the parameters, and what belongs to them: one tensor for each piece, a part of a larger one.
struct Chunk {
    pieces: Vec<Piece>,
    /// The parameters' own numbers, which the CPU moves; the device has copies of them.
    master: Vec<Tensor>,
    /// For each kind of the optimizer's state.
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

    /// Takes the numbers of `parameters` over, which something else than an update has written. A GPU is not waited for: the
    /// next update waits for all that was queued before its gradients.
    pub(super) fn reload(&self, parameters: &[Tensor]) -> Result<(), TchError> {
        let lines = parameters.iter().map(line).collect::<Result<Vec<_>, _>>()?;
        self.chunks.iter().try_for_each(|chunk| copy_all(&chunk.master, &parts(&lines, &chunk.pieces)?))
    }

    /// Moves `parameters` along their gradients. `lap` learns which phase took the time since it was last called.
    pub(super) fn step(
        &mut self,
        parameters: &[Tensor],
        rule: &Rule,
        count: Option<&Tensor>,
        lap: &mut dyn FnMut(Phase) -> Result<(), TchError>,
    ) -> Result<(), TchError> {
        // Clipping the gradients, if anything, came before.
        lap(Phase::Optimizer)?;
        // Set once an update and not for every chunk, as the threads of another number are started anew. On a CPU device
        // they make the copies, too.
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
    /// Asks for the gradients of this chunk; gives where they arrive, for each piece, undefined where there is none.
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

/// Places for `pieces`, one behind the other, along a line that has room for just these.
fn along(line: &Tensor, pieces: &[Piece]) -> Result<Vec<Tensor>, TchError> {
    let counts: Vec<i64> = pieces.iter().map(|piece| piece.count).collect();
    line.f_split_with_sizes(&counts[..], 0)
}

/// The number of threads that libtorch works with on the host, while this lives.
struct Threads {
    before: i32,
}

impl Threads {
    fn set(threads: i32) -> Self {
        let before = tch::get_num_threads();
        // libtorch makes and ends threads at every change of their number.
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
