//! GGUF's names of tensors in Hugging Face's checkpoints.

use ir::{Error, Result};

/// What an architecture of Hugging Face calls its tensors.
struct Row {
    /// `model_type` of config.json.
    architectures: &'static [&'static str],
    /// Before all names, where the checkpoint is that of a model with a head.
    prefix: &'static str,
    /// Before the names of layer `{}`.
    layer: &'static str,
    /// GGUF's name, theirs. Those of a layer have neither prefix.
    names: &'static [(&'static str, &'static str)],
    /// Matrices are stored `[in, out]`.
    is_transposed: bool,
    /// Added to the weights of RMS norms.
    norm_offset: f32,
}

const LLAMA: Row = Row {
    architectures: &["llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen2_moe", "qwen3_moe", "phi3"],
    prefix: "model.",
    layer: "layers.{}.",
    names: &[
        ("token_embd", "embed_tokens"),
        ("output_norm", "norm"),
        ("attn_norm", "input_layernorm"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_qkv", "self_attn.qkv_proj"),
        ("attn_q_norm", "self_attn.q_norm"),
        ("attn_k_norm", "self_attn.k_norm"),
        ("attn_output", "self_attn.o_proj"),
        ("ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_gate_up", "mlp.gate_up_proj"),
        ("ffn_down", "mlp.down_proj"),
        ("ffn_gate_inp", "mlp.gate"),
        ("ffn_gate_exps", "mlp.experts.{e}.gate_proj"),
        ("ffn_up_exps", "mlp.experts.{e}.up_proj"),
        ("ffn_down_exps", "mlp.experts.{e}.down_proj"),
        ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
        ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
        ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
        ("ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
    ],
    is_transposed: false,
    norm_offset: 0.0,
};

/// Names that differ from [`LLAMA`]'s come first.
const ROWS: &[(&[&str], &[(&str, &str)])] = &[
    (
        &["mixtral"],
        &[
            ("ffn_gate_inp", "block_sparse_moe.gate"),
            ("ffn_gate_exps", "block_sparse_moe.experts.{e}.w1"),
            ("ffn_down_exps", "block_sparse_moe.experts.{e}.w2"),
            ("ffn_up_exps", "block_sparse_moe.experts.{e}.w3"),
        ],
    ),
    (
        &["gemma2", "gemma3", "gemma3_text"],
        &[
            ("post_attention_norm", "post_attention_layernorm"),
            ("ffn_norm", "pre_feedforward_layernorm"),
            ("post_ffw_norm", "post_feedforward_layernorm"),
        ],
    ),
    (
        &["phi"],
        &[
            ("output_norm", "final_layernorm"),
            ("attn_output", "self_attn.dense"),
            ("ffn_up", "mlp.fc1"),
            ("ffn_down", "mlp.fc2"),
        ],
    ),
];

const GPT2: Row = Row {
    architectures: &["gpt2"],
    prefix: "transformer.",
    layer: "h.{}.",
    names: &[
        ("token_embd", "wte"),
        ("position_embd", "wpe"),
        ("output_norm", "ln_f"),
        ("attn_norm", "ln_1"),
        ("attn_qkv", "attn.c_attn"),
        ("attn_output", "attn.c_proj"),
        ("ffn_norm", "ln_2"),
        ("ffn_up", "mlp.c_fc"),
        ("ffn_down", "mlp.c_proj"),
    ],
    is_transposed: true,
    norm_offset: 0.0,
};

const BERT: Row = Row {
    architectures: &["bert"],
    prefix: "bert.",
    layer: "encoder.layer.{}.",
    names: &[
        ("token_embd", "embeddings.word_embeddings"),
        ("position_embd", "embeddings.position_embeddings"),
        ("token_types", "embeddings.token_type_embeddings"),
        ("token_embd_norm", "embeddings.LayerNorm"),
        ("attn_q", "attention.self.query"),
        ("attn_k", "attention.self.key"),
        ("attn_v", "attention.self.value"),
        ("attn_output", "attention.output.dense"),
        ("attn_output_norm", "attention.output.LayerNorm"),
        ("ffn_up", "intermediate.dense"),
        ("ffn_down", "output.dense"),
        ("layer_output_norm", "output.LayerNorm"),
        ("pooler", "pooler.dense"),
    ],
    is_transposed: false,
    norm_offset: 0.0,
};

const ROBERTA: Row = Row { architectures: &["roberta", "xlm-roberta"], prefix: "roberta.", ..BERT };

/// The name of a linear layer in PEFT's adapters (`model.layers.0.self_attn.q_proj`).
pub fn peft_name(name: &str) -> String {
    let names = Names { row: &LLAMA, special: &[], prefix: LLAMA.prefix, norm_offset: 0.0 };
    names.of(&format!("{name}.weight")).trim_end_matches(".weight").to_string()
}

/// The names of one checkpoint.
pub struct Names {
    row: &'static Row,
    special: &'static [(&'static str, &'static str)],
    prefix: &'static str,
    norm_offset: f32,
}

impl Names {
    /// The names of an architecture; `has` says whether the checkpoint has a tensor.
    pub fn new(architecture: &str, has: impl Fn(&str) -> bool) -> Result<Names> {
        let special = ROWS.iter().find(|(a, _)| a.contains(&architecture)).map_or(&[][..], |r| r.1);
        let row = [&GPT2, &BERT, &ROBERTA].into_iter().find(|r| r.architectures.contains(&architecture));
        let row: &'static Row = match row {
            Some(row) => row,
            None if !special.is_empty() || LLAMA.architectures.contains(&architecture) => &LLAMA,
            None => return Err(Error::format(format!("architecture {architecture:?} is not supported"))),
        };
        let embedding = row.names[0].1;
        let has_prefix = has(&format!("{}{embedding}.weight", row.prefix));
        let prefix = if has_prefix { row.prefix } else { "" };
        let norm_offset = if architecture.starts_with("gemma") { 1.0 } else { row.norm_offset };
        Ok(Names { row, special, prefix, norm_offset })
    }
    /// The layer's prefix, GGUF's name without its ending, the ending.
    fn parts<'a>(&self, name: &'a str) -> (String, &'a str, &'a str) {
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        match stem.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((layer, rest)) => (format!("{}{}", self.prefix, self.row.layer.replace("{}", layer)), rest, ending),
            None => (self.prefix.to_string(), stem, ending),
        }
    }
    fn find(&self, stem: &str) -> Option<&'static str> {
        self.special.iter().chain(self.row.names).find(|(ours, _)| *ours == stem).map(|n| n.1)
    }
    /// Their name of a tensor.
    pub fn of(&self, name: &str) -> String {
        let (before, stem, ending) = self.parts(name);
        match self.find(stem) {
            _ if stem == "output" => format!("lm_head.{ending}"),
            _ if stem.starts_with("classifier") => name.to_string(),
            // What is not in the table is in no checkpoint.
            None => format!("{before}(no {stem}).{ending}"),
            Some(theirs) => format!("{before}{theirs}.{ending}"),
        }
    }
    /// The pattern of experts stored one by one.
    pub fn expert(&self, name: &str) -> Option<String> {
        name.contains("_exps.").then(|| self.of(name))
    }
    /// Whether a matrix is stored `[in, out]`.
    pub fn is_transposed(&self, name: &str) -> bool {
        self.row.is_transposed && name.starts_with("blk.")
    }
    /// What is added to the weights of a norm.
    pub fn norm_offset(&self, name: &str) -> f32 {
        if name.contains("norm") { self.norm_offset } else { 0.0 }
    }
}
