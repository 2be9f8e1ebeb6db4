//! The time of a step under every execution plan.
//!
//! With `P` parameters in 10^9, d, t and p the data, tensor and pipeline degrees, A micro-batches of m samples in each data-parallel
//! rank, N nodes, and r ranks on a device; times in s, bandwidths in GB/s:
//!
//! ```text
//! fixed = (a + cast P / t) / p                         what does not shrink with a micro-batch; casts only in bf16
//! C     = t1 f16 md m / (t p) + fixed                  a micro-batch on a stage; f16 only in bf16, md only if t p > 1
//! F, B  = C / 3, 2 C / 3                               forward and backward
//! slots = max(A + p - 1, A r)                          micro-batches in a row, with bubbles; ranks of a device take turns
//! gc    = rho slots (C - fixed + ra fixed) / 3         the forward passes that are repeated
//! f(x, y) = (x^k + y^k)^(1/k), k = 1 + kk              overlap
//! ```
//!
//! Without tensor and pipeline parallelism, with the fewest and most devices of a node m' and M:
//!
//! ```text
//! bw   = b_intra / r on one node, else at most b_inter max(1, ceil(m' / 2))    two devices share a network card
//! AR   = 8 P (d - 1) / d / bw,  H = AR / 2             ring all-reduce in fp32; H is half of it
//! O    = o 8 P / b_inter (u (2 (N - 1) / N - 0.75) if M = 1, else (M / 2)^gam)  several nodes, one with an odd number of devices
//!
//! dp      (slots - 1) C + F + f(B, AR) + gc + r k_opt P + sync r + O
//! zero1   H for AR, k_opt P / d for k_opt P, + eta H, 2 sync
//! zero2   as zero1, and F + f(B, H) in every micro-batch; (A + 1) sync
//! zero3   as zero2, gathers twice in every micro-batch: 2 A eta H; 3 A sync
//! offload (c0 + c1 / d) P for k_opt P / d under ZeRO, and w for eta; (c0 + c1) P without ZeRO; c1 is for 12 cores a rank; no O
//! ```
//!
//! With tensor or pipeline parallelism nothing overlaps. With `act = 4 s h m A` bytes in 10^9, L layers, n devices of a node and
//! `wait = slots / (A + p - 1)`:
//!
//! ```text
//! slots C + gc + (8 + 4 gc) act L (t - 1) / t wait / b_intra + (4 + 2 gc) L A / p (t - 1) wait tl      all-reduces of layers
//!   + (A + p - 2) pp + 2 ppb act wait (nb n / (nics b_inter) + (p - 1 - nb) / b_intra)                 nb boundaries cross nodes
//!   + dc 8 (d - 1) / d P / (t p) / bw3 + sync r + r k_opt P / (t p)
//! ```
//!
//! `bw3` is b_intra / r if d t <= n; else the rings of a node share its cards. The power mean is Pollux's (OSDI 2021, section
//! 3.2); the terms of rings, ZeRO and tensor parallelism are those of Rubick (arXiv 2408.08586) and of Narayanan et al. (SC
//! 2021). The rest was found on published iteration times of A800 GPUs and on those of cores of one machine.

use num_dual::DualNum;
use schema::plan::Precision;

use super::{Parameter, Step, overlapped, parameter, seconds_per_sample};
use crate::{
    Observation, Setting,
    priors::{Parts, Prior},
};

pub(super) const PARAMETERS: [Parameter; 23] = [
    parameter("t1", "s", "compute of a sample on one device"),
    parameter("a", "s", "part of a micro-batch that does not shrink with it"),
    parameter("rho", "", "recomputed share of a forward pass under gc"),
    parameter("f16", "", "compute in bf16 over that in fp32"),
    parameter("cast", "s/G", "casts of 10^9 weights to bf16, in each micro-batch"),
    parameter("ra", "", "share of the fixed part that gc repeats, over that of the rest"),
    parameter("md", "", "compute beside tensor or pipeline parallelism, over that without"),
    parameter("b_intra", "GB/s", "bandwidth between devices of a node"),
    parameter("b_inter", "GB/s", "bandwidth of a network card"),
    parameter("kk", "", "overlap of backward passes with all-reduces; 0 for no overlap"),
    parameter("k_opt", "s/G", "update of 10^9 parameters on a device"),
    parameter("c0", "s/G", "update on the host, part that is not divided"),
    parameter("c1", "s/G", "update on the host, part that ranks divide"),
    parameter("eta", "", "exposed part of ZeRO's gathers"),
    parameter("w", "", "exposed part of ZeRO's gathers under offload"),
    parameter("o", "", "cost of nodes with an odd number of devices"),
    parameter("gam", "", "its growth with the devices of a node"),
    parameter("u", "", "its share where each node has one device"),
    parameter("tl", "s", "fixed part of a tensor-parallel all-reduce"),
    parameter("pp", "s", "fixed part of a pipeline slot"),
    parameter("ppb", "", "exposed part of transfers between stages"),
    parameter("dc", "", "exposed part of all-reduces beside tensor or pipeline parallelism"),
    parameter("sync", "s", "fixed part of synchronising data-parallel ranks"),
];

/// The cores of the host for each rank that `c1` is for; a row that does not have their number is taken to have as many.
const HOST_CORES: f64 = 12.0;

pub(super) fn priors(parts: &Parts, observations: &[Observation]) -> Vec<Prior> {
    let p = |mean, sd| Prior { mean, sd };
    vec![
        p(0.6 * seconds_per_sample(observations), 5.0),
        parts.launch,
        p(0.95, 0.15),
        parts.bf16,
        parts.cast,
        p(1.0, 0.3),
        parts.divided,
        parts.intra,
        parts.inter,
        p(0.3, 0.7),
        parts.update,
        parts.host_update_fixed,
        parts.host_update,
        p(1.2, 0.3),
        p(0.35, 0.5),
        p(0.1, 2.0),
        p(0.6, 0.3),
        p(0.3, 0.8),
        parts.tensor_latency,
        parts.stage_latency,
        p(1.0, 0.5),
        p(1.0, 0.3),
        parts.sync_latency,
    ]
}

pub(super) fn applies(setting: &Setting) -> Result<(), &'static str> {
    let Setting { plan, placement, .. } = setting;
    if setting.billions().is_none() {
        return Err("the number of parameters of its model is not known");
    }
    if placement.devices * setting.ranks_per_device != plan.ranks() {
        return Err("its plan takes another number of devices");
    }
    if !setting.divides_the_model() {
        return Ok(());
    }
    if plan.tp > 1 && (setting.facts.layers.is_none() || setting.activations().is_none()) {
        return Err("the layers, the sequence or the width of its model are not known");
    }
    if placement.fewest != placement.most {
        return Err("its nodes have different numbers of devices");
    }
    match placement.nodes > 1 && !placement.fewest.is_multiple_of(u32::from(plan.tp)) {
        true => Err("its tensor-parallel ranks are on different nodes"),
        false => Ok(()),
    }
}

pub(super) fn step<D: DualNum<f64> + Copy>(values: &[D], setting: &Setting) -> Step<D> {
    let &[
        t1,
        a,
        rho,
        f16,
        cast,
        ra,
        md,
        b_intra,
        b_inter,
        kk,
        k_opt,
        c0,
        c1,
        eta,
        w,
        o,
        gam,
        u,
        tl,
        pp,
        ppb,
        dc,
        sync,
    ] = values
    else {
        unreachable!("there are as many values as parameters")
    };
    let Setting { plan, placement, .. } = setting;
    let turns = f64::from(setting.ranks_per_device);
    // Ranks that take turns on a device also do so when they communicate.
    let (b_intra, sync) = (b_intra / turns, sync * turns);
    let billions = setting.billions().unwrap_or_default();
    let (data, tensor, stages) = (f64::from(plan.dp), f64::from(plan.tp), f64::from(plan.pp));
    let micro_batches = f64::from(plan.ga);
    let is_several = placement.nodes > 1;

    let mut of_samples = t1 * (setting.micro_batch() / (tensor * stages));
    let mut fixed = a / stages;
    if setting.divides_the_model() {
        of_samples *= md;
    }
    if plan.precision == Precision::Bf16 {
        of_samples *= f16;
        fixed += cast * (billions / (tensor * stages));
    }
    let compute = of_samples + fixed;
    let (forward, backward) = (compute / 3.0, compute * (2.0 / 3.0));
    let slots = (micro_batches + stages - 1.0).max(micro_batches * turns);
    // A stage that waits for another leaves its device to it.
    let waits = slots / (micro_batches + stages - 1.0);
    let recomputed = if plan.gc { rho * (of_samples + ra * fixed) * (slots / 3.0) } else { D::from(0.0) };

    let cards = f64::from(placement.fewest.div_ceil(2).max(1));
    let across = b_inter * cards;
    let bandwidth = if is_several && across.re() < b_intra.re() { across } else { b_intra };
    let on_host = c1 * setting.cpus.map_or(1.0, |cpus| HOST_CORES / f64::from(cpus));

    if setting.divides_the_model() {
        let of_rank = billions / (tensor * stages);
        let activations = setting.activations().unwrap_or_default();
        let layers = f64::from(setting.facts.layers.unwrap_or_default());
        let per_node = f64::from(placement.fewest);
        let mut total = compute * slots + recomputed;
        if plan.tp > 1 {
            let reduces = if plan.gc { 6.0 } else { 4.0 };
            let bytes = 2.0 * reduces * activations * layers * (tensor - 1.0) / tensor;
            let reduces = reduces * layers * micro_batches / stages * (tensor - 1.0);
            total += b_intra.recip() * (bytes * waits / turns) + tl * (reduces * waits);
        }
        if plan.pp > 1 {
            let in_node = tensor * data < per_node;
            let crossing = if in_node { f64::from(placement.nodes) - 1.0 } else { stages - 1.0 };
            let crossing = if is_several { crossing } else { 0.0 };
            let transfers =
                b_inter.recip() * (crossing * per_node / cards) + b_intra.recip() * (stages - 1.0 - crossing);
            total +=
                pp * (micro_batches + stages - 2.0) + ppb * transfers * (2.0 * activations * waits / turns);
        }
        if plan.dp > 1 {
            let bandwidth = if !is_several || data * tensor <= per_node {
                b_intra
            } else {
                let local = data.min((per_node / tensor).floor().max(1.0));
                b_inter * (cards / (per_node / local))
            };
            total += dc * bandwidth.recip() * (8.0 * (data - 1.0) / data * of_rank) + sync;
        }
        let update = if plan.offload { c0 + on_host } else { k_opt };
        return Step::of(total + update * (of_rank * turns));
    }

    let is_zero = plan.zero > 0;
    let reduce = bandwidth.recip() * (8.0 * billions * (data - 1.0) / data);
    let half = reduce * 0.5;
    let exchanged = if is_zero { half } else { reduce };
    let last = forward + overlapped(backward, exchanged, kk + 1.0);
    let in_each = plan.zero >= 2;
    let mut total = if in_each && plan.ga > 1 {
        last * micro_batches + compute * (slots - micro_batches)
    } else {
        last + compute * (slots - 1.0)
    };
    total += recomputed;
    let divided = if is_zero { data } else { 1.0 };
    total += if plan.offload {
        (c0 + on_host / divided) * (billions * turns)
    } else {
        k_opt * (billions * turns / divided)
    };
    if is_zero {
        let exposed = if plan.offload { w } else { eta };
        let gathers = if plan.zero == 3 { 2.0 * micro_batches } else { 1.0 };
        total += exposed * half * gathers;
    }
    if plan.dp > 1 {
        total += sync
            * match plan.zero {
                0 => 1.0,
                1 => 2.0,
                2 => micro_batches + 1.0,
                _ => 3.0 * micro_batches,
            };
    }
    if is_several && placement.is_odd && !plan.offload {
        let most = f64::from(placement.most);
        let nodes = f64::from(placement.nodes);
        let shape = if placement.most == 1 {
            u * (2.0 * (nodes - 1.0) / nodes - 0.75)
        } else {
            (gam * (most / 2.0).ln()).exp()
        };
        total += o * b_inter.recip() * shape * (8.0 * billions);
    }
    Step::of(total)
}
