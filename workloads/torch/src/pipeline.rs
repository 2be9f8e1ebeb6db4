//! Pipeline parallelism: each stage runs a range of a model's links, and micro-batches follow one another through the
//! stages.

mod cut;
mod passage;

pub(crate) use self::{
    cut::{Cut, cut},
    passage::Passage,
};

/// A pass of one micro-batch through a stage. Passes of each kind take the micro-batches in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Forward,
    Backward,
}

/// The order of the passes of stage number `stage` of `stages` in a step: one forward, one backward (PipeDream-Flush,
/// Narayanan et al., ICML 2021). A stage holds the activations of at most `stages - stage` micro-batches.
pub(crate) fn order(stage: usize, stages: usize, micro_batches: usize) -> Vec<Pass> {
    let ahead = (stages - 1 - stage).min(micro_batches);
    let mut passes = vec![Pass::Forward; ahead];
    for _ in ahead..micro_batches {
        passes.extend([Pass::Forward, Pass::Backward]);
    }
    passes.extend(vec![Pass::Backward; ahead]);
    passes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(stage: usize, stages: usize, micro_batches: usize) -> String {
        let letter = |pass| if pass == Pass::Forward { 'F' } else { 'B' };
        order(stage, stages, micro_batches).into_iter().map(letter).collect()
    }

    #[test]
    fn each_stage_runs_one_forward_and_one_backward_in_turn() {
        for (stage, passes) in [(0, "FFFFBFBBBB"), (1, "FFFBFBFBBB"), (2, "FFBFBFBFBB"), (3, "FBFBFBFBFB")] {
            assert_eq!(spelled(stage, 4, 5), passes, "stage {stage}");
        }
        assert_eq!(spelled(0, 4, 2), "FFBB", "fewer micro-batches than stages");
        assert_eq!(spelled(0, 2, 1), "FB");
    }

    #[test]
    fn a_stage_holds_no_more_micro_batches_than_stages_follow() {
        for (stage, stages, micro_batches) in [(0, 4, 16), (2, 4, 16), (0, 8, 3), (7, 8, 3)] {
            let mut held = 0_usize;
            let most = order(stage, stages, micro_batches)
                .into_iter()
                .map(|pass| {
                    held = if pass == Pass::Forward { held + 1 } else { held - 1 };
                    held
                })
                .max();
            assert_eq!((held, most), (0, Some((stages - stage).min(micro_batches))));
        }
    }
}
