//! The Transformer against single operations.

use schema::catalog::Model;
use tch::{Device, Kind, Reduction, Tensor};
use torch_worker::workload::Batch;

use crate::{
    operations::{State, assert_same_training, draw, layer_norm, linear},
    support::{batch, build, catalog, state},
};

/// The Transformer once more: attention as a product, a mask, a softmax and a product; label smoothing as a sum.
struct Reference<'a> {
    state: &'a State,
    heads: i64,
}

impl Reference<'_> {
    fn norm(&self, x: &Tensor, name: &str) -> Tensor {
        layer_norm(self.state, &format!("{name}.layer_norm"), x, 1e-6)
    }

    fn attention(&self, queries: &Tensor, memory: &Tensor, name: &str, causal: bool) -> Tensor {
        let project = |x: &Tensor, part: &str| x.matmul(&self.state[&format!("{name}.{part}.weight")].tr());
        let (samples, tokens, width) = queries.size3().unwrap();
        let per_head = |x: &Tensor, part: &str| {
            project(x, part).view([samples, x.size()[1], self.heads, width / self.heads]).transpose(1, 2)
        };
        let product = per_head(queries, "w_qs").matmul(&per_head(memory, "w_ks").transpose(2, 3));
        let mut scores = product / ((width / self.heads) as f64).sqrt();
        if causal {
            let future = Tensor::ones([tokens, tokens], (Kind::Bool, Device::Cpu)).triu(1);
            scores = scores.masked_fill(&future, f64::NEG_INFINITY);
        }
        let mixed = scores.softmax(-1, None).matmul(&per_head(memory, "w_vs"));
        let mixed = mixed.transpose(1, 2).reshape([samples, tokens, width]);
        self.norm(&(project(&mixed, "fc") + queries), name)
    }

    fn feed_forward(&self, x: &Tensor, name: &str) -> Tensor {
        let layer = |x: &Tensor, part: &str| linear(self.state, &format!("{name}.{part}"), x);
        self.norm(&(layer(&layer(x, "w_1").relu(), "w_2") + x), name)
    }

    fn embed(&self, tokens: &Tensor, stack: &str) -> Tensor {
        let words = &self.state["encoder.src_word_emb.weight"];
        let (samples, length) = tokens.size2().unwrap();
        let width = words.size()[1];
        let places = Tensor::arange(length, tch::kind::DOUBLE_CPU).unsqueeze(1);
        let exponents = Tensor::arange(width / 2, tch::kind::DOUBLE_CPU) * (2.0 / width as f64);
        let angles = places / Tensor::from(10_000.0).pow(&exponents);
        let positions = Tensor::stack(&[angles.sin(), angles.cos()], 2).view([length, width]);
        let words = words.index_select(0, &tokens.flatten(0, 1)).view([samples, length, width]);
        self.norm(&(words + positions.to_kind(Kind::Float)), stack)
    }

    fn loss(&self, batch: &Batch, layers: u32, source: i64) -> Tensor {
        let target = batch.targets.size()[1];
        let mut memory = self.embed(&batch.inputs.narrow(1, 0, source), "encoder");
        for layer in 0..layers {
            let name = format!("encoder.layer_stack.{layer}");
            memory = self.attention(&memory, &memory, &format!("{name}.slf_attn"), false);
            memory = self.feed_forward(&memory, &format!("{name}.pos_ffn"));
        }
        let mut x = self.embed(&batch.inputs.narrow(1, source, target), "decoder");
        for layer in 0..layers {
            let name = format!("decoder.layer_stack.{layer}");
            x = self.attention(&x, &x, &format!("{name}.slf_attn"), true);
            x = self.attention(&x, &memory, &format!("{name}.enc_attn"), false);
            x = self.feed_forward(&x, &format!("{name}.pos_ffn"));
        }
        let width = x.size()[2] as f64;
        let logits = x.matmul(&self.state["encoder.src_word_emb.weight"].tr()) / width.sqrt();
        let logarithms = logits.log_softmax(-1, None).flatten(0, 1);
        let right =
            logarithms.g_nll_loss::<Tensor>(&batch.targets.flatten(0, 1), None, Reduction::Mean, -100);
        // A tenth of the probability is spread over all classes.
        right * 0.9 - logarithms.mean(None) * 0.1
    }
}

#[test]
fn the_transformer_equals_single_operations() {
    let mut workload = catalog("transformer-mini");
    let Model::Transformer(transformer) = &mut workload.model else { unreachable!("it is a Transformer") };
    transformer.dropout = 0.0;
    let model = build(&workload);
    let (batch, state) = (batch(&workload, 2), state(model.as_ref()));
    draw(&state);
    let expected = Reference { state: &state, heads: 4 }.loss(&batch, 2, 24);
    assert_same_training(&state, &model.loss(0, &batch).unwrap(), &expected, 1e-3);
}

#[test]
fn the_base_model_has_its_published_size() {
    let model = build(&catalog("transformer"));
    let embedding = 10_000 * 512;
    // torch.nn.Transformer() counts 44,140,544; each of its 18 attentions has four biases that the paper has not.
    assert_eq!(model.parameters().count() - embedding, 44_140_544 - 18 * 4 * 512);
}
