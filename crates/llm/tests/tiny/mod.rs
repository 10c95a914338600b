//! A small Llama with random weights, as a GGUF file.

#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::Arc;
use talweg_llm::LanguageModel;
use talweg_llm::gguf::Format;

pub const HIDDEN: usize = 64;
pub const FFN: usize = 96;
pub const LAYERS: usize = 2;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const LENGTH: usize = 128;

/// A small generator: the weights are the same on every machine.
pub struct Random(pub u64);
impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 20) as usize % n
    }
    /// Between −1 and 1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// A GGUF file to be.
#[derive(Default)]
pub struct Writer {
    entries: u64,
    metadata: Vec<u8>,
    infos: Vec<u8>,
    tensors: u64,
    data: Vec<u8>,
}

impl Writer {
    fn text(to: &mut Vec<u8>, s: &str) {
        to.extend((s.len() as u64).to_le_bytes());
        to.extend(s.as_bytes());
    }
    fn key(&mut self, key: &str, kind: u32) {
        self.entries += 1;
        Writer::text(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
    }
    pub fn str(&mut self, key: &str, value: &str) {
        self.key(key, 8);
        Writer::text(&mut self.metadata, value);
    }
    pub fn u32(&mut self, key: &str, value: u32) {
        self.key(key, 4);
        self.metadata.extend(value.to_le_bytes());
    }
    pub fn f32(&mut self, key: &str, value: f32) {
        self.key(key, 6);
        self.metadata.extend(value.to_le_bytes());
    }
    pub fn strings(&mut self, key: &str, all: &[String]) {
        self.key(key, 9);
        self.metadata.extend(8u32.to_le_bytes());
        self.metadata.extend((all.len() as u64).to_le_bytes());
        all.iter().for_each(|s| Writer::text(&mut self.metadata, s));
    }
    pub fn ints(&mut self, key: &str, all: &[i32]) {
        self.key(key, 9);
        self.metadata.extend(5u32.to_le_bytes());
        self.metadata.extend((all.len() as u64).to_le_bytes());
        all.iter().for_each(|x| self.metadata.extend(x.to_le_bytes()));
    }
    /// Rows first.
    pub fn tensor(&mut self, name: &str, shape: &[usize], format: Format, data: &[f32]) {
        self.tensors += 1;
        Writer::text(&mut self.infos, name);
        self.infos.extend((shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|d| self.infos.extend((*d as u64).to_le_bytes()));
        self.infos.extend(format.number().unwrap().to_le_bytes());
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        match format {
            Format::F32 => data.iter().for_each(|x| self.data.extend(x.to_le_bytes())),
            Format::BF16 => data.iter().for_each(|x| self.data.extend(half::bf16::from_f32(*x).to_le_bytes())),
            Format::Q8_0 => data.chunks_exact(32).for_each(|block| {
                let scale = block.iter().fold(0.0f32, |m, x| m.max(x.abs())) / 127.0;
                self.data.extend(half::f16::from_f32(scale).to_le_bytes());
                self.data.extend(block.iter().map(|x| (x / scale).round() as i8 as u8));
            }),
            other => panic!("{other:?}"),
        }
        self.data.resize(self.data.len().next_multiple_of(32), 0);
    }
    pub fn bytes(self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend(self.tensors.to_le_bytes());
        out.extend(self.entries.to_le_bytes());
        out.extend(self.metadata);
        out.extend(self.infos);
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(self.data);
        out
    }
}

/// The characters of a byte-level vocabulary, in the order of bytes, and two special tokens.
pub fn vocabulary() -> Vec<String> {
    let is_plain = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 256u32;
    let mut of = |b: u8| {
        if is_plain(b) {
            return (b as char).to_string();
        }
        next += 1;
        char::from_u32(next - 1).unwrap().to_string()
    };
    let mut all: Vec<String> = (0..=255).map(&mut of).collect();
    all.extend(["<|im_start|>".to_string(), "<|im_end|>".to_string()]);
    all
}

const TEMPLATE: &str = "{% if tools %}{{ tools | length }}{% endif %}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The file of a model with matrices of this format.
pub fn llama(format: Format) -> Vec<u8> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut w = Writer::default();
    w.str("general.architecture", "llama");
    w.u32("llama.block_count", LAYERS as u32);
    w.u32("llama.embedding_length", HIDDEN as u32);
    w.u32("llama.feed_forward_length", FFN as u32);
    w.u32("llama.attention.head_count", HEADS as u32);
    w.u32("llama.attention.head_count_kv", KV_HEADS as u32);
    w.u32("llama.context_length", LENGTH as u32);
    w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    w.f32("llama.rope.freq_base", 10_000.0);
    w.str("tokenizer.ggml.model", "gpt2");
    let words = vocabulary();
    w.strings("tokenizer.ggml.tokens", &words);
    w.strings("tokenizer.ggml.merges", &[]);
    let kinds: Vec<i32> = (0..words.len()).map(|i| if i < 256 { 1 } else { 3 }).collect();
    w.ints("tokenizer.ggml.token_type", &kinds);
    w.u32("tokenizer.ggml.eos_token_id", 257);
    w.str("tokenizer.chat_template", TEMPLATE);
    let mut matrix = |w: &mut Writer, name: &str, rows: usize, columns: usize| {
        let scale = 2.0 / (columns as f32).sqrt();
        let data: Vec<f32> = (0..rows * columns).map(|_| random.unit() * scale).collect();
        w.tensor(name, &[rows, columns], format, &data);
    };
    let kv = HIDDEN / HEADS * KV_HEADS;
    matrix(&mut w, "token_embd.weight", words.len(), HIDDEN);
    matrix(&mut w, "output.weight", words.len(), HIDDEN);
    for i in 0..LAYERS {
        let shapes = [
            ("attn_q", HIDDEN, HIDDEN),
            ("attn_k", kv, HIDDEN),
            ("attn_v", kv, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN),
            ("ffn_gate", FFN, HIDDEN),
            ("ffn_up", FFN, HIDDEN),
            ("ffn_down", HIDDEN, FFN),
        ];
        for (name, rows, columns) in shapes {
            matrix(&mut w, &format!("blk.{i}.{name}.weight"), rows, columns);
        }
        for name in ["attn_norm", "ffn_norm"] {
            w.tensor(&format!("blk.{i}.{name}.weight"), &[HIDDEN], Format::F32, &[1.0; HIDDEN]);
        }
    }
    w.tensor("output_norm.weight", &[HIDDEN], Format::F32, &[1.0; HIDDEN]);
    w.bytes()
}

/// The same, on disk.
pub fn file(folder: &tempfile::TempDir, format: Format) -> PathBuf {
    let path = folder.path().join(format!("tiny-{}.gguf", format.name()));
    std::fs::write(&path, llama(format)).unwrap();
    path
}

/// The same, loaded.
pub fn load(format: Format) -> Arc<LanguageModel> {
    let folder = tempfile::tempdir().unwrap();
    Arc::new(LanguageModel::load(file(&folder, format)).unwrap())
}
