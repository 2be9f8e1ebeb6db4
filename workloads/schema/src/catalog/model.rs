//! The architectures, one file per family: everything that a worker needs to build a model, and its kind of
//! sample.

use serde::{Deserialize, Serialize};

use crate::{device::Device, plan::Axis};

/// The properties that each family defines for its models.
trait Family {
    fn samples(&self) -> Samples;

    /// Sizes of the model. The default, without sizes, is for workers without a network.
    fn features(&self) -> Features {
        Features::default()
    }

    /// Number of links of the chain that pipeline stages divide; `None` if the model is no single chain. The
    /// tests of torch-worker compare it with the built model.
    fn links(&self) -> Option<u32> {
        None
    }

    /// Number of attention heads, which tensor-parallel ranks divide; `None` if the family has none.
    fn heads(&self) -> Option<u32> {
        None
    }

    /// Why no plan of the family can have this axis; `None` if plans can have it.
    fn lacks(&self, axis: Axis) -> Option<&'static str> {
        (axis == Axis::Tp && self.heads().is_none())
            .then_some("only attention and its feed-forward networks have a tensor-parallel form")
    }

    /// Whether it has convolutions or recurrent layers. On a GPU another library computes them than other
    /// matrix products, and by default in another arithmetic. The tests of torch-worker compare this with its
    /// layers.
    fn convolves_or_recurs(&self) -> bool {
        false
    }

    /// Sizes that are inconsistent, and shares out of range. Sizes of 0 are checked for all families in one
    /// place.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Batches that are invalid for this family under any plan.
    fn refuses_batch(&self, _global_batch: u32) -> Option<String> {
        None
    }

    fn refuses_device(&self, _device: &Device) -> Option<String> {
        None
    }
}

/// Lists the families once, and generates from that the modules, the definitions, the type of all models,
/// and the dispatch to the families. `drops` names the shares that dropout or stochastic depth drops in
/// training.
macro_rules! families {
    ($($module:ident: $name:ident $(drops($($share:ident),+))?, $doc:literal;)+) => {
        $(mod $module;)+
        $(pub use $module::$name;)+

        /// The embedded files, by name.
        pub(super) const EMBEDDED: &[(&str, &str)] = &[$((
            concat!(stringify!($module), ".toml"),
            include_str!(concat!("../../../catalog/", stringify!($module), ".toml")),
        ),)+];

        /// The architecture, with everything a worker needs to build it.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        pub enum Model {
            $(#[doc = $doc] $name($name),)+
        }

        impl Model {
            fn family(&self) -> &dyn Family {
                match self {
                    $(Model::$name(model) => model,)+
                }
            }

            /// The same model without dropout, so that its results do not depend on random numbers.
            #[must_use]
            pub fn without_dropout(&self) -> Model {
                match self {
                    $(Model::$name(model) => Model::$name($name { $($($share: 0.0,)+)? ..model.clone() }),)+
                }
            }
        }
    };
}

families! {
    bert: Bert drops(dropout), "Devlin et al., NAACL 2019: post-norm encoder of pairs of sentences.";
    dcgan: Dcgan, "Radford et al., ICLR 2016; a step is one update of each network.";
    deepspeech: Deepspeech, "Amodei et al., ICML 2016: convolutions and bidirectional LSTM layers under a CTC loss.";
    efficientnet: Efficientnet drops(dropout, stochastic_depth), "Tan and Le, ICML 2019.";
    espcn: Espcn, "Shi et al., CVPR 2016: super-resolution by sub-pixel convolution.";
    gpt2: Gpt2, "Radford et al., 2019: pre-norm decoder, learned positions, tied embedding.";
    llama: Llama, "Touvron et al., 2023: pre-norm decoder, rotary positions, gated feed-forward network, no biases.";
    lstm_lm: LstmLm drops(dropout), "Zaremba et al., 2014: stacked LSTM with an untied output layer.";
    mobilenet_v2: MobilenetV2 drops(dropout), "Sandler et al., CVPR 2018.";
    mobilenet_v3: MobilenetV3 drops(dropout), "Howard et al., ICCV 2019.";
    neumf: Neumf, "He et al., WWW 2017: generalised matrix factorisation beside an MLP.";
    pointnet: Pointnet drops(dropout), "Qi et al., CVPR 2017: a network on sets of points.";
    ppo: Ppo, "Schulman et al., 2017: proximal policy optimisation; acts in CartPole-v1.";
    resnet: Resnet, "He et al., CVPR 2016; with groups Xie et al., CVPR 2017.";
    roberta: Roberta drops(dropout), "Liu et al., 2019: BERT's encoder over masked tokens alone.";
    stress: Stress, "No training either: a process that presses on one resource of a machine.";
    synthetic: Synthetic, "No training at all: a process that keeps the protocol, for tests of the harness.";
    t5: T5 drops(dropout), "Raffel et al., JMLR 2020: encoder and decoder with relative positions.";
    td3: Td3, "Fujimoto et al., ICML 2018: twin delayed DDPG; acts in Pendulum-v1.";
    transformer: Transformer drops(dropout), "Vaswani et al., NeurIPS 2017: encoder and decoder for translation.";
    vae: Vae, "Kingma and Welling, ICLR 2014: a variational autoencoder of two layers each.";
    vgg: Vgg drops(dropout), "Simonyan and Zisserman, ICLR 2015.";
    vit: Vit, "Dosovitskiy et al., ICLR 2021: a transformer encoder on patches of an image.";
}

mod features;
mod inverted_residual;

pub use bert::BertTask;
pub use features::Features;
pub use inverted_residual::InvertedResiduals;
pub use mobilenet_v3::{MobilenetV3Activation, MobilenetV3Block};
pub use resnet::{ResnetBlock, ResnetStem};
pub use stress::Resource;
pub use synthetic::Fault;

/// The kind of sample that a model trains on, which decides where samples can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// An image `[channels, side, side]` and its class.
    LabelledImages { channels: u32, side: u32, classes: u32 },
    /// Noise `[latent, 1, 1]`, and an image `[channels, side, side]` to learn from.
    NoiseAndImages { latent: u32, channels: u32, side: u32 },
    /// Tokens `[context]`, and the next token for each of them.
    Tokens { vocabulary: u32, context: u32 },
    /// A pair of sentences `[2, context]` (tokens, then the sentence of each token) with some tokens
    /// replaced; the original tokens, and whether the second sentence followed the first, `[context + 1]`.
    MaskedPairs { vocabulary: u32, context: u32 },
    /// Tokens `[context]` with some of them replaced, and the original tokens, `[context]`.
    MaskedTokens { vocabulary: u32, context: u32 },
    /// A question and a paragraph, as a pair above, and the first and last token of the answer, `[2]`.
    Answers { vocabulary: u32, context: u32 },
    /// A source sentence and the target shifted by one token, `[source + target]`; the target, `[target]`.
    Translations { vocabulary: u32, source: u32, target: u32 },
    /// A text with its spans replaced by sentinels, and the spans, as in `Translations`.
    Spans { vocabulary: u32, source: u32, target: u32 },
    /// A user and an item, and whether the user chose it.
    Ratings { users: u32, items: u32 },
    /// A cloud of points `[3, points]` and its class.
    PointClouds { points: u32, classes: u32 },
    /// An image `[1, side, side]` with values from 0 to 1, which the model reconstructs.
    GreyImages { side: u32 },
    /// An image `[1, side, side]`, and the same image enlarged by `upscale`.
    ImagePairs { side: u32, upscale: u32 },
    /// A spectrogram `[1, frequencies, frames]` and its transcript, `[letters]`; letter 0 is the blank and
    /// never occurs.
    Utterances { frequencies: u32, frames: u32, alphabet: u32, letters: u32 },
    /// Answers of an environment to actions. The model makes them itself, by acting.
    Transitions,
    /// No samples are read.
    Nothing,
}

impl Samples {
    /// The word for one sample, for people.
    pub fn word(self) -> &'static str {
        match self {
            Samples::LabelledImages { .. }
            | Samples::NoiseAndImages { .. }
            | Samples::GreyImages { .. }
            | Samples::ImagePairs { .. } => "image",
            Samples::Tokens { .. } | Samples::MaskedPairs { .. } | Samples::MaskedTokens { .. } => "sequence",
            Samples::Answers { .. } => "question",
            Samples::Translations { .. } | Samples::Spans { .. } => "pair",
            Samples::Ratings { .. } => "rating",
            Samples::PointClouds { .. } => "point cloud",
            Samples::Utterances { .. } => "utterance",
            Samples::Transitions => "transition",
            Samples::Nothing => "sample",
        }
    }
}

impl Model {
    /// Whether it has convolutions or recurrent layers. On a GPU another library computes them than other
    /// matrix products, and by default in another arithmetic.
    pub fn convolves_or_recurs(&self) -> bool {
        self.family().convolves_or_recurs()
    }

    /// The program that can train it, which lies beside the harness.
    pub fn worker(&self) -> &'static str {
        match self {
            Model::Synthetic(_) | Model::Stress(_) => "synthetic",
            _ => "torch-worker",
        }
    }

    pub fn samples(&self) -> Samples {
        self.family().samples()
    }

    pub fn features(&self) -> Features {
        self.family().features()
    }

    /// Number of links of the chain that pipeline stages divide; `None` if the model is no single chain. A
    /// transformer has its embeddings, its layers and its head.
    pub fn links(&self) -> Option<u32> {
        self.family().links()
    }

    /// Number of attention heads, which tensor-parallel ranks divide; `None` if the model has none.
    pub fn heads(&self) -> Option<u32> {
        self.family().heads()
    }

    /// Why no plan of its family can have this axis; `None` if plans can have it.
    pub fn lacks(&self, axis: Axis) -> Option<&'static str> {
        self.family().lacks(axis)
    }

    /// The name of its family, as definitions spell it: `lstm-lm`.
    pub fn family_name(&self) -> String {
        self.tagged().0
    }

    /// The name of its family, and its sizes by name.
    pub(crate) fn tagged(&self) -> (String, serde_json::Value) {
        let serde_json::Value::Object(tagged) = serde_json::to_value(self).expect("its keys are strings")
        else {
            unreachable!("an enum of structs is an object with one key");
        };
        tagged.into_iter().next().expect("the key is the family's name")
    }

    /// The reason why it cannot run at this global batch under any plan.
    pub(super) fn refuses_batch(&self, global_batch: u32) -> Option<String> {
        self.family().refuses_batch(global_batch)
    }

    /// The reason why it cannot run on this device under any plan.
    pub fn refuses_device(&self, device: &Device) -> Option<String> {
        self.family().refuses_device(device)
    }

    /// The reason why the model cannot be built; `None` if it can.
    pub fn problem(&self) -> Option<String> {
        let (family, sizes) = self.tagged();
        // The synthetic worker's numbers are times and counts, which may be 0.
        let empty = if matches!(self, Model::Synthetic(_)) { None } else { empty_size("", &sizes) };
        let problem =
            empty.map(|name| format!("{name} is 0; sizes start at 1")).or_else(|| self.family().problem())?;
        Some(format!("model.{family}: {problem}"))
    }
}

/// Why jobs that act in an environment are not divided among ranks.
fn one_environment(axis: Axis) -> Option<&'static str> {
    matches!(axis, Axis::Dp | Axis::Tp | Axis::Pp | Axis::Zero)
        .then_some("it makes its data by acting in one environment, which ranks do not share")
}

/// The reason why `share` is invalid as a share that training drops.
fn share_problem(name: &str, share: f64) -> Option<String> {
    (!(0.0..1.0).contains(&share)).then(|| format!("{name} {share}: use a number from 0 to below 1"))
}

/// The name of the first size that is 0, because a network without classes, layers or width cannot be
/// built.
fn empty_size(name: &str, value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::Number(number) => (number.as_u64() == Some(0)).then(|| name.to_string()),
        serde_json::Value::Array(values) => values.iter().find_map(|value| empty_size(name, value)),
        serde_json::Value::Object(fields) => fields.iter().find_map(|(name, value)| empty_size(name, value)),
        _ => None,
    }
}

/// The reason why the sizes are invalid for an encoder of text.
fn encoder_problem(
    vocabulary: u32,
    positions: u32,
    context: u32,
    width: u32,
    heads: u32,
    dropout: f64,
) -> Option<String> {
    (!width.is_multiple_of(heads))
        .then(|| format!("width {width} is not a multiple of heads {heads}"))
        .or_else(|| {
            (context > positions).then(|| format!("context {context} is longer than positions {positions}"))
        })
        .or_else(|| few("context", context, 8))
        .or_else(|| few("vocabulary", vocabulary, 8))
        .or_else(|| share_problem("dropout", dropout))
}

/// Checks the minimum size that leaves room for words beside the special tokens.
fn few(name: &str, size: u32, least: u32) -> Option<String> {
    (size < least).then(|| format!("{name} {size}: use {least} or more"))
}

#[cfg(test)]
mod tests {
    use crate::catalog::{Catalog, Model};

    #[test]
    fn without_dropout_every_share_is_0_and_all_else_stays() {
        let catalog = Catalog::embedded();
        for workload in catalog.iter() {
            let (model, without) = (format!("{:?}", workload.model), workload.model.without_dropout());
            let shares = ["dropout: ", "stochastic_depth: "];
            let dropped = shares.map(|name| {
                let at = model.find(name)? + name.len();
                Some(model[at..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>())
            });
            let expected = shares.iter().zip(dropped).fold(model, |model, (name, share)| match share {
                Some(share) => model.replace(&format!("{name}{share}"), &format!("{name}0.0")),
                None => model,
            });
            assert_eq!(format!("{without:?}"), expected);
            assert_eq!(without.problem(), None, "{}", workload.name);
        }
        let Model::Efficientnet(model) = catalog.get("efficientnet-b0").unwrap().model.without_dropout()
        else {
            unreachable!("it is one")
        };
        assert_eq!((model.dropout, model.stochastic_depth), (0.0, 0.0));
    }
}
