//! Semantic errors of a definition, found before anything starts.

use super::{Optimizer, Workload};

/// The first semantic error of a definition, with the workload's name.
pub(super) fn problem(w: &Workload) -> Option<String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if w.name.is_empty() || !w.name.chars().all(legal) {
        return Some(format!("workload name '{}': use a-z, 0-9 and '-'", w.name));
    }
    if w.global_batch == 0 || w.verify.global_batch == 0 || w.verify.steps == 0 {
        return Some(format!("workload '{}': batches and steps start at 1", w.name));
    }
    let plan = || {
        let reason = w.refuses(&w.plan, w.global_batch)?;
        Some(format!("its plan '{}' is impossible: {reason}", w.plan))
    };
    let axes = || {
        let (axis, reason) = w.axes.iter().find_map(|axis| Some((axis, w.model.lacks(*axis)?)))?;
        Some(format!("its axis '{axis}' is impossible: {reason}"))
    };
    let verified = || {
        let reason = w.model.refuses_batch(w.verify.global_batch)?;
        Some(format!("its batch to verify is impossible: {reason}"))
    };
    plan()
        .or_else(axes)
        .or_else(verified)
        .or_else(|| optimizer(&w.optimizer))
        .or_else(|| w.model.problem())
        .map(|problem| format!("workload '{}': {problem}", w.name))
}

/// Numbers for which the update is undefined.
fn optimizer(optimizer: &Optimizer) -> Option<String> {
    let (learning_rate, others) = match *optimizer {
        Optimizer::Sgd { learning_rate, momentum, weight_decay } => {
            (learning_rate, vec![("momentum", momentum), ("weight_decay", weight_decay)])
        }
        Optimizer::Adam { learning_rate, beta1, beta2, epsilon, weight_decay }
        | Optimizer::Adamw { learning_rate, beta1, beta2, epsilon, weight_decay } => {
            let others =
                [("beta1", beta1), ("beta2", beta2), ("epsilon", epsilon), ("weight_decay", weight_decay)];
            (learning_rate, others.to_vec())
        }
    };
    if !learning_rate.is_finite() || learning_rate <= 0.0 {
        return Some(format!("optimizer: learning_rate {learning_rate}: use a finite number above 0"));
    }
    let (name, value) = others.into_iter().find(|(_, value)| !value.is_finite())?;
    Some(format!("optimizer: {name} {value}: use a finite number"))
}

#[cfg(test)]
mod tests {
    use crate::catalog::{Catalog, tests::GOOD};

    #[test]
    fn numbers_that_no_model_can_have_are_refused_with_file_and_line() {
        let sgd = |rate: &str, momentum: &str| {
            let sound = "learning_rate = 0.1, momentum = 0.9";
            GOOD.replace(sound, &format!("learning_rate = {rate}, momentum = {momentum}"))
        };
        let adam = |epsilon: &str| {
            let sound = "sgd = { learning_rate = 0.1, momentum = 0.9,";
            let other = "adamw = { learning_rate = 0.1, beta1 = 0.9, beta2 = 0.95";
            GOOD.replace(sound, &format!("{other}, epsilon = {epsilon},"))
        };
        let model = |text: &str| GOOD.replace("synthetic = { step_us = 10, busy_percent = 0 }", text);
        let resnet = |layers: &str, image: u32| {
            let rest = format!("stem = \"cifar\", classes = 10, image = {image}");
            model(&format!("resnet = {{ block = \"basic\", layers = {layers}, {rest} }}"))
        };
        let gpt2 = |vocabulary: u32, heads: u32| {
            let rest = format!("context = 4, layers = 1, width = 8, heads = {heads}");
            model(&format!("gpt2 = {{ vocabulary = {vocabulary}, {rest} }}"))
        };
        let lstm = |dropout: &str| {
            let rest = "vocabulary = 9, context = 4, layers = 1, width = 8";
            model(&format!("lstm-lm = {{ {rest}, dropout = {dropout} }}"))
        };
        let dcgan = |image: u32| {
            let rest = "latent = 9, generator_width = 8, discriminator_width = 8, channels = 3";
            model(&format!("dcgan = {{ {rest}, image = {image} }}"))
        };
        let neumf =
            |mlp: &str| model(&format!("neumf = {{ users = 9, items = 9, factors = 8, mlp = {mlp} }}"));
        let ppo = |hidden: &str| model(&format!("ppo = {{ hidden = {hidden}, rollout = 8, epochs = 2 }}"));
        let td3 = |random: u32, delay: u32| {
            let rest = "hidden = [8], replay = 9";
            model(&format!("td3 = {{ {rest}, random = {random}, policy_delay = {delay} }}"))
        };
        let synthetic = |busy: u32, noise: &str| {
            let shares = format!("busy_percent = {busy}, noise_percent = {noise}");
            model(&format!("synthetic = {{ step_us = 10, {shares} }}"))
        };
        let stressor = |batch: u32, verify: u32| {
            model("stress = { resource = \"io\" }")
                .replace("axes = [\"ga\"]", "axes = []")
                .replace("global_batch = 8", &format!("global_batch = {batch}"))
                .replace("global_batch = 2", &format!("global_batch = {verify}"))
        };
        let axes = |text: &str, axes: &str| text.replace("axes = [\"ga\"]", &format!("axes = {axes}"));
        let cases = [
            (
                axes(&resnet("[1, 1, 1, 1]", 8), r#"["dp", "tp"]"#),
                "its axis 'tp' is impossible: only attention and its feed-forward networks have",
            ),
            (
                axes(&dcgan(16), r#"["zero"]"#),
                "its axis 'zero' is impossible: networks that are updated in turn",
            ),
            (sgd("0.0", "0.9"), "optimizer: learning_rate 0: use a finite number above 0"),
            (sgd("nan", "0.9"), "optimizer: learning_rate NaN"),
            (sgd("0.1", "inf"), "optimizer: momentum inf: use a finite number"),
            (adam("nan"), "optimizer: epsilon NaN: use a finite number"),
            (resnet("[1, 0, 1, 1]", 32), "model.resnet: layers is 0; sizes start at 1"),
            (resnet("[1, 1, 1, 1]", 7), "model.resnet: image 7: use 8 or more"),
            (gpt2(0, 2), "model.gpt2: vocabulary is 0; sizes start at 1"),
            (gpt2(9, 0), "model.gpt2: heads is 0; sizes start at 1"),
            (gpt2(9, 3), "width 8 is not a multiple of heads 3"),
            (lstm("1.0"), "dropout 1: use a number from 0 to below 1"),
            (lstm("nan"), "dropout NaN"),
            (dcgan(8), "image 8: use a power of two from 16 on"),
            (dcgan(48), "image 48: use a power of two from 16 on"),
            (neumf("[]"), "mlp is empty"),
            (neumf("[7, 4]"), "mlp starts with 7"),
            (neumf("[8, 0]"), "model.neumf: mlp is 0; sizes start at 1"),
            (ppo("[8, 0]"), "model.ppo: hidden is 0; sizes start at 1"),
            (td3(10, 2), "model.td3: random 10 is more than what replay 9 keeps; use 9 or less"),
            (td3(9, 0), "model.td3: policy_delay is 0; sizes start at 1"),
            (synthetic(101, "0.0"), "busy_percent 101: use 0 to 100"),
            (synthetic(100, "nan"), "noise_percent NaN: use 0 to 100"),
            (synthetic(100, "-1.0"), "noise_percent -1: use 0 to 100"),
            (
                stressor(101, 100),
                "plan 'dp1' is impossible: the batch of a stressor is its dial in percent, and 101",
            ),
            (
                stressor(100, 101),
                "batch to verify is impossible: the batch of a stressor is its dial in percent",
            ),
        ];
        for (text, message) in cases {
            let error = Catalog::default().add("mine.toml", &text).unwrap_err();
            assert!(error.message.contains(message), "{message}: {error}");
            assert_eq!((error.file.as_str(), error.line), ("mine.toml", 2), "{error}");
        }
        let sound = [
            sgd("0.1", "0.0"),
            adam("1e-8"),
            resnet("[1, 1, 1, 1]", 8),
            gpt2(9, 2),
            axes(&gpt2(9, 2), r#"["dp", "tp", "pp", "zero"]"#),
            lstm("0.5"),
            dcgan(16),
            neumf("[8]"),
            ppo("[8]"),
            td3(9, 2),
            synthetic(100, "100.0"),
            stressor(100, 100),
        ];
        for text in sound {
            Catalog::default().add("mine.toml", &text).unwrap();
        }
    }
}
