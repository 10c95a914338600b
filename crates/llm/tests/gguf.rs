//! Blocks have the bits that the reference gives them, and files that lie are refused.

use proptest::prelude::*;
use std::io::Write;
use talweg_llm::Tokenizer;
use talweg_llm::gguf::{Format, Gguf, Value, dequantize};
use talweg_llm::models::{Config, Scaling};

mod tiny;

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ b as u64).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn every_block_format_has_the_bits_of_the_reference() {
    let mut seen = 0;
    for line in include_str!("blocks.txt").lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let format = Format::ALL.into_iter().find(|f| f.name() == words[0]).unwrap();
        let hex = |i: usize| u8::from_str_radix(&words[1][2 * i..2 * i + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..words[1].len() / 2).map(hex).collect();
        let mut out = vec![0.0f32; bytes.len() / format.block_bytes() * format.block()];
        dequantize(format, &bytes, &mut out).unwrap();
        let ends: Vec<f32> = words[3..].iter().map(|w| w.parse().unwrap()).collect();
        assert_eq!([out[0], out[1], out[2], out[out.len() - 1]], ends[..], "{}", format.name());
        let raw: Vec<u8> = out.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(format!("{:016x}", fnv(&raw)), words[2], "{}", format.name());
        seen += 1;
    }
    assert_eq!(seen, Format::ALL.len() - 1, "all but F32, which is itself");
}

/// A small file.
struct File(Vec<u8>);

impl File {
    fn new(tensors: u64, entries: u64) -> File {
        let mut f = File(b"GGUF".to_vec());
        f.0.extend(3u32.to_le_bytes());
        f.0.extend(tensors.to_le_bytes());
        f.0.extend(entries.to_le_bytes());
        f
    }
    fn string(mut self, s: &str) -> File {
        self.0.extend((s.len() as u64).to_le_bytes());
        self.0.extend(s.as_bytes());
        self
    }
    fn u32(mut self, n: u32) -> File {
        self.0.extend(n.to_le_bytes());
        self
    }
    fn u64(mut self, n: u64) -> File {
        self.0.extend(n.to_le_bytes());
        self
    }
    fn aligned(mut self) -> File {
        self.0.resize(self.0.len().next_multiple_of(32), 0);
        self
    }
    fn open(&self) -> ir::Result<Gguf> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&self.0).unwrap();
        Gguf::open(file.path())
    }
    fn small() -> File {
        let meta = File::new(1, 3).string("general.architecture").u32(8).string("llama");
        let meta = meta.string("llama.block_count").u32(4).u32(2);
        let meta = meta.string("tokens").u32(9).u32(8).u64(2).string("a").string("bc");
        let mut f = meta.string("w").u32(2).u64(32).u64(2).u32(Format::Q8_0.number().unwrap()).u64(0).aligned();
        for row in 0..2u8 {
            f.0.extend(half::f16::from_f32(0.5).to_le_bytes());
            f.0.extend((0..32u8).map(|i| i + row));
        }
        f
    }
}

#[test]
fn a_small_file_is_read() {
    let g = File::small().open().unwrap();
    assert_eq!(g.str("general.architecture").unwrap(), "llama");
    assert_eq!(g.size("llama.block_count").unwrap(), 2);
    assert_eq!(g.array("tokens").unwrap(), [Value::Str(b"a".to_vec()), Value::Str(b"bc".to_vec())]);
    let w = g.dequantized("w").unwrap();
    assert_eq!(w.shape().dims(), [2, 32]);
    assert_eq!(w.to_vec::<f32>().unwrap()[31..34], [15.5, 0.5, 1.0]);
    let e = g.size("llama.rope").unwrap_err();
    assert!(e.message.contains("there is no metadata \"llama.rope\""), "{e}");
    assert!(g.info("v").unwrap_err().message.contains("there is no tensor \"v\""));
}

#[test]
fn a_vocabulary_becomes_a_tokenizer() {
    let strings = |f: File, key: &str, all: &[&str]| {
        let f = f.string(key).u32(9).u32(8).u64(all.len() as u64);
        all.iter().fold(f, |f, s| f.string(s))
    };
    let f = File::new(0, 5).string("tokenizer.ggml.model").u32(8).string("gpt2");
    let tokens = ["h", "e", "l", "o", "Ġ", "he", "ll", "hell", "hello", "<|end|>", "Ã", "©"];
    let f = strings(f, "tokenizer.ggml.tokens", &tokens);
    let f = strings(f, "tokenizer.ggml.merges", &["h e", "l l", "he ll", "hell o"]);
    let f = f.string("tokenizer.ggml.token_type").u32(9).u32(5).u64(tokens.len() as u64);
    let f = (0..tokens.len() as u32).fold(f, |f, i| f.u32(if i == 9 { 3 } else { 1 }));
    let f = f.string("tokenizer.ggml.eos_token_id").u32(4).u32(9).aligned();
    let t = Tokenizer::from_gguf(&f.open().unwrap()).unwrap();
    assert_eq!(t.encode("hello<|end|> hell").unwrap(), [8, 9, 4, 7]);
    assert_eq!(t.encode("é").unwrap(), [10, 11], "two bytes of one character");
    assert_eq!((t.bytes(10), t.special(9), t.eos()), (&[0xc3u8][..], Some("<|end|>"), &[9u32][..]));
    assert_eq!(t.decode(&[8, 9, 4, 10, 11]), "hello é");
}

#[test]
fn files_that_lie_are_refused() {
    let refused = |f: File, why: &str| {
        let e = f.open().err().unwrap_or_else(|| panic!("{why}")).message;
        assert!(e.contains(why), "{e} ≠ {why}");
    };
    refused(File(b"GGML\x03\0\0\0".to_vec()), "is not a GGUF file");
    refused(File::new(0, u64::MAX), "metadata entries are announced");
    refused(File::new(u64::MAX, 0), "tensors are announced");
    refused(File::new(0, 1).string("a").u32(9).u32(4).u64(1 << 60).u64(0), "elements are announced");
    let nested = (0..9).fold(File::new(0, 1).string("a").u32(9), |f, _| f.u32(9).u64(1));
    refused(nested.u32(4).u64(0).aligned(), "nested");
    let tensor = |d: u64, format: Format, at: u64| {
        File::new(1, 0).string("w").u32(1).u64(d).u32(format.number().unwrap()).u64(at).aligned()
    };
    refused(tensor(32, Format::Q8_0, 0), "does not lie in the file");
    refused(tensor(33, Format::Q8_0, 0), "do not fill blocks");
    refused(tensor(1 << 62, Format::F32, 0), "too large");
    refused(tensor(32, Format::Q8_0, u64::MAX - 31), "does not lie in the file");
    refused(File::new(1, 0).string("w").u32(1).u64(1).u32(99).u64(0).aligned(), "type 99 is not supported");
}

/// YaRN's numbers, and LongRoPE's divisors, which are tensors of the file.
#[test]
fn rope_scalings_of_files_are_read() {
    let config = |kind: Option<&str>, factors: bool| {
        let mut w = tiny::Writer::default();
        w.str("general.architecture", "phi3");
        for (key, value) in [("block_count", 1), ("embedding_length", 16), ("attention.head_count", 2)] {
            w.u32(&format!("phi3.{key}"), value);
        }
        w.u32("phi3.context_length", 4096);
        w.u32("phi3.rope.scaling.original_context_length", 1024);
        w.f32("phi3.rope.scaling.factor", 4.0);
        if let Some(kind) = kind {
            w.str("phi3.rope.scaling.type", kind);
        }
        if factors {
            w.f32("phi3.rope.scaling.attn_factor", 1.25);
            w.tensor("rope_factors_short.weight", &[4], Format::F32, &[1.0, 1.0, 1.5, 2.0]);
            w.tensor("rope_factors_long.weight", &[4], Format::F32, &[1.0, 2.0, 4.0, 8.0]);
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&w.bytes()).unwrap();
        Config::from_gguf(&Gguf::open(file.path()).unwrap())
    };
    let mut long = config(None, true).unwrap();
    let rope = long.rope.as_mut().unwrap();
    let last =
        |rope: &talweg_llm::models::Rope| (10_000f64.powf(0.75) * rope.frequencies(10_000.0)[3] as f64 * 1e6).round();
    assert_eq!((rope.attention_factor, last(rope)), (1.25, 125_000.0));
    rope.seq_len = 1024;
    assert_eq!(last(rope), 500_000.0);
    let yarn = config(Some("yarn"), false).unwrap().rope.unwrap();
    let want = Scaling::Yarn { factor: 4.0, beta_fast: 32.0, beta_slow: 1.0, length: 1024.0, truncate: true };
    assert_eq!((&yarn.scaling, yarn.attention_factor), (&want, 0.1 * 4f64.ln() + 1.0));
    assert!(config(Some("longrope"), false).unwrap_err().message.contains("rope_factors_short.weight"));
    assert!(config(Some("spiral"), false).unwrap_err().message.contains("linear, yarn, longrope"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn changed_bytes_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>()) {
        let mut f = File::small();
        for (at, byte) in changes {
            let at = at.index(f.0.len());
            f.0[at] = byte;
        }
        f.0.truncate(cut.index(f.0.len()) + 1);
        if let Ok(g) = f.open() {
            for name in g.tensors().keys() {
                if g.info(name).unwrap().shape.count() < 1 << 20 {
                    let _ = g.dequantized(name);
                }
            }
        }
    }
}
