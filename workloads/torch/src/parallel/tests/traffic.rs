//! Bytes that each rank sends in a step, against the published formulas.
//!
//! All-reduces count `2 (n - 1) / n` of their bytes, gathers and reduce-scatters `(n - 1) / n`, sends all of them.

use schema::{mesh::Mesh, plan::Plan};

use super::{Case, SGD};

/// Sizes of the decoder in `definitions.toml`.
const VOCABULARY: u64 = 67;
const CONTEXT: u64 = 12;
const LAYERS: u64 = 6;
const WIDTH: u64 = 72;
const BATCH: u64 = 8;

/// Bytes of a number.
const FP32: u64 = 4;

/// Numbers of the links of the decoder in order, without the tied weight.
fn links() -> Vec<u64> {
    let norm = 2 * WIDTH;
    let linear = |inputs: u64, outputs: u64| (inputs + 1) * outputs;
    let layer = 2 * norm
        + linear(WIDTH, 3 * WIDTH)
        + linear(WIDTH, WIDTH)
        + linear(WIDTH, 4 * WIDTH)
        + linear(4 * WIDTH, WIDTH);
    let mut links = vec![CONTEXT * WIDTH];
    links.extend(vec![layer; LAYERS as usize]);
    links.push(norm);
    links
}

const TIED: u64 = VOCABULARY * WIDTH;

/// Bytes of a line of this many numbers that is cut into shards of whole lines of 16 numbers.
fn padded(numbers: u64, ranks: u64) -> u64 {
    numbers.div_ceil(ranks).next_multiple_of(16) * ranks * FP32
}

/// The published volume of each rank in the order of ranks.
fn expected(plan: &Plan) -> Vec<u64> {
    let [dp, tp, pp, ga] = [plan.dp, plan.tp, plan.pp, plan.ga].map(u64::from);
    let mesh = Mesh::of(plan);
    let share = |bytes: u64, ranks: u64| bytes * (ranks - 1) / ranks;
    let all_reduce = |bytes: u64, ranks: u64| 2 * share(bytes, ranks);
    // Activations of a micro-batch between two links.
    let tokens = BATCH / dp / ga * CONTEXT;
    let activations = tokens * WIDTH * FP32;
    let again = u64::from(plan.gc);
    let stages = stages_of(pp);
    (0..mesh.ranks())
        .map(|rank| {
            let at = mesh.coordinates(rank);
            let links_here = stages[at.stage as usize].clone();
            let (is_first, is_last) = (links_here.contains(&0), links_here.contains(&(LAYERS as usize + 1)));
            let layers = links_here.filter(|link| (1..=LAYERS as usize).contains(link)).count() as u64;
            let mut sent = 0;
            // ZeRO (Rajbhandari et al., 2020, section 7): one reduction, and one gather, or two of each link for each
            // micro-batch. A tied weight is gathered for both of its links.
            let lines: u64 = links().iter().map(|numbers| padded(*numbers, dp)).sum();
            let tied = padded(TIED, dp);
            match plan.zero {
                0 => {}
                1 => sent += 2 * share(lines + tied, dp),
                2 => sent += (ga + 1) * share(lines + tied, dp),
                _ => sent += ga * (3 * share(lines, dp) + 5 * share(tied, dp)),
            }
            // Megatron-LM (Shoeybi et al., 2019, section 3): two all-reduces of a layer forward and two backward, one of
            // the embedding forward, one of the head backward, and of the loss three numbers a token.
            let forward = 2 * layers + u64::from(is_first);
            let backward = 2 * layers + u64::from(is_last);
            sent += ga * ((1 + again) * forward + backward) * all_reduce(activations, tp);
            sent += u64::from(is_last) * ga * 3 * all_reduce(tokens * FP32, tp);
            // Pipelines: activations forward and their gradients back; the gradient of the tied weight to the other stage.
            let neighbours = u64::from(!is_first) + u64::from(!is_last);
            sent += ga * neighbours * activations;
            let tied_here = own_rows(at.tensor.into(), tp) * WIDTH * FP32;
            if pp > 1 && (is_first || is_last) {
                sent += tied_here;
            }
            // Data parallelism: all gradients of this rank.
            if plan.zero == 0 {
                sent += all_reduce(parameters_of(layers, is_first, is_last, at.tensor.into(), tp) * FP32, dp);
            }
            sent
        })
        .collect()
}

/// Rows of the vocabulary of a tensor-parallel rank.
fn own_rows(rank: u64, ranks: u64) -> u64 {
    VOCABULARY / ranks + u64::from(rank < VOCABULARY % ranks)
}

/// Number of parameters of a rank.
fn parameters_of(layers: u64, is_first: bool, is_last: bool, rank: u64, tp: u64) -> u64 {
    const HEADS: u64 = 9;
    let heads = HEADS / tp + u64::from(rank < HEADS % tp);
    let inner = 4 * WIDTH / tp + u64::from(rank < 4 * WIDTH % tp);
    let attention = heads * WIDTH / HEADS;
    let layer = 4 * WIDTH
        + 3 * attention * (WIDTH + 1)
        + attention * WIDTH
        + WIDTH
        + inner * (WIDTH + 1)
        + inner * WIDTH
        + WIDTH;
    let tied = own_rows(rank, tp) * WIDTH;
    let first = u64::from(is_first) * CONTEXT * WIDTH;
    let last = u64::from(is_last) * 2 * WIDTH;
    layers * layer + first + last + u64::from(is_first || is_last) * tied
}

/// The cut of the decoder: all layers have the same number of operations, and the head fewer.
fn stages_of(stages: u64) -> Vec<std::ops::Range<usize>> {
    match stages {
        1 => std::iter::once(0..8).collect(),
        2 => vec![0..4, 4..8],
        4 => vec![0..2, 2..4, 4..6, 6..8],
        _ => unreachable!("no such cut is tried"),
    }
}

/// Bytes that each rank sends in its second step.
fn counted(plan: &str) -> Vec<u64> {
    let plan: Plan = plan.parse().unwrap();
    let case = Case { model: "gpt2", optimizer: SGD, plan, is_exact: false, is_clipped: false };
    case.on_ranks(|trainer| {
        let step = |_| {
            trainer.issue().unwrap();
            trainer.completed(0).unwrap().unwrap().sent_bytes
        };
        (0..2).map(step).last().flatten().expect("there are several ranks")
    })
}

#[test]
fn every_plan_sends_what_its_formula_says() {
    for plan in [
        "dp2",
        "dp4",
        "dp2-ga4",
        "dp2-zero1-ga2",
        "dp2-zero2-ga2",
        "dp2-zero3-ga2",
        "dp2-zero3-gc",
        "dp4-zero2",
        "dp4-zero3",
        "tp2",
        "tp2-ga2",
        "tp2-gc",
        "tp4",
        "pp2",
        "pp2-ga4",
        "pp4-ga2-gc",
        "dp2-tp2",
        "dp2-pp2-ga2",
        "tp2-pp2-ga2-gc",
        "dp2-tp2-pp2-ga2",
    ] {
        let (counted, expected) = (counted(plan), expected(&plan.parse().unwrap()));
        println!("{plan:20} {counted:?}");
        assert_eq!(counted, expected, "{plan}");
    }
}
