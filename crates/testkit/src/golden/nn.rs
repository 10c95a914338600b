//! Adapters: convolution, pooling, resampling, attention, embedding, distances.

use super::{Arg, GoldenCase};
use ops::nn::{
    AttentionOptions, AvgPoolOptions, ConvOptions, InterpolateOptions, Interpolation, MaxPoolOptions, Resize,
    SampleOptions,
};
use ops::{Error, Result, Tensor};

/// The adapter of `case`'s operator, if it is one of these.
pub fn call(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let x = || c.tensor(0);
    let name = c.operator.strip_prefix("nn.functional.").unwrap_or(&c.operator);
    let (weight, bias) = (|| c.tensor((1, "weight")), || c.opt_tensor((2, "bias")));
    Some(Ok(vec![match name {
        "linear" => x().linear(&weight(), bias().as_ref()),
        "bilinear" => x().bilinear(&c.tensor(1), &c.tensor((2, "weight")), c.opt_tensor((3, "bias")).as_ref()),
        "embedding" => x().embedding(&c.tensor(1)),
        "conv1d" => x().conv1d(&weight(), bias().as_ref(), conv(c, 1)),
        "conv2d" => x().conv2d(&weight(), bias().as_ref(), conv(c, 2)),
        "conv3d" => x().conv3d(&weight(), bias().as_ref(), conv(c, 3)),
        "conv_transpose1d" => x().conv_transpose1d(&weight(), bias().as_ref(), conv(c, 1)),
        "conv_transpose2d" => x().conv_transpose2d(&weight(), bias().as_ref(), conv(c, 2)),
        "max_pool1d" => return Some(Ok(x().max_pool1d_index(window(c, 1), max_pool(c, 1)).to_vec())),
        "max_pool2d" => return Some(Ok(x().max_pool2d_index(window(c, 2), max_pool(c, 2)).to_vec())),
        "max_pool3d" => return Some(Ok(x().max_pool3d_index(window(c, 3), max_pool(c, 3)).to_vec())),
        "avg_pool1d" => x().avg_pool1d(window(c, 1), avg_pool(c, 1)),
        "avg_pool2d" => x().avg_pool2d(window(c, 2), avg_pool(c, 2)),
        "avg_pool3d" => x().avg_pool3d(window(c, 3), avg_pool(c, 3)),
        "adaptive_avg_pool1d" => x().adaptive_avg_pool1d(adaptive(c, 1)),
        "adaptive_avg_pool2d" => x().adaptive_avg_pool2d(adaptive(c, 2)),
        "adaptive_max_pool2d" => return Some(Ok(x().adaptive_max_pool2d_index(adaptive(c, 2)).to_vec())),
        "unfold" if c.operator.starts_with("nn.") => x().im2col(
            c.sizes(1, 2, 1),
            ConvOptions::new()
                .stride(c.sizes((4, "stride"), 2, 1))
                .padding(ops::nn::PerAxis::from(c.sizes((3, "padding"), 2, 0)))
                .dilation(c.sizes((2, "dilation"), 2, 1)),
        ),
        "interpolate:nearest" | "interpolate:bilinear" | "interpolate:bicubic" => return Some(interpolate(c)),
        "grid_sample" => x().grid_sample(
            &c.tensor(1),
            SampleOptions {
                mode: c.str("mode", "bilinear"),
                padding: c.str("padding_mode", "zeros"),
                align_corners: c.bool("align_corners", false),
            },
        ),
        "scaled_dot_product_attention" => x().attention(
            &c.tensor(1),
            &c.tensor(2),
            AttentionOptions {
                mask: c.opt_tensor("attn_mask"),
                causal: c.bool("is_causal", false),
                scale: c.opt_float("scale"),
                grouped: c.bool("enable_gqa", false),
                ..Default::default()
            },
        ),
        "cosine_similarity" => x().cosine_similarity(&c.tensor(1), c.int("dim", 1), c.float("eps", 1e-8)),
        "pairwise_distance" => {
            let (p, eps) = (c.float("p", 2.0), c.float("eps", 1e-6));
            let keep = c.bool("keepdim", false);
            if keep {
                x().pairwise_distance_keep(&c.tensor(1), p, eps)
            } else {
                x().pairwise_distance(&c.tensor(1), p, eps)
            }
        }
        "cdist" => x().cdist(&c.tensor(1), c.float((2, "p"), 2.0)),
        _ => return None,
    }]))
}

fn conv(c: &GoldenCase, n: usize) -> ConvOptions {
    let options = ConvOptions::new()
        .stride(c.sizes("stride", n, 1))
        .dilation(c.sizes("dilation", n, 1))
        .output_padding(c.sizes("output_padding", n, 0))
        .groups(c.int("groups", 1) as usize);
    match c.get("padding") {
        Some(Arg::Str(word)) => options.padding(word.as_str()),
        _ => options.padding(ops::nn::PerAxis::from(c.sizes("padding", n, 0))),
    }
}

fn window(c: &GoldenCase, n: usize) -> Vec<usize> {
    c.sizes((1, "kernel_size"), n, 1)
}

/// The stride, which is the window where none is given (`None` or an empty tuple).
fn stride(c: &GoldenCase, n: usize) -> Vec<usize> {
    match c.ints((2, "stride")) {
        Some(list) if !list.is_empty() => c.sizes((2, "stride"), n, 1),
        _ => window(c, n),
    }
}

fn max_pool(c: &GoldenCase, n: usize) -> MaxPoolOptions {
    MaxPoolOptions::new()
        .stride(stride(c, n))
        .padding(c.sizes((3, "padding"), n, 0))
        .dilation(c.sizes((4, "dilation"), n, 1))
        .ceil_mode(c.bool("ceil_mode", false))
}

fn avg_pool(c: &GoldenCase, n: usize) -> AvgPoolOptions {
    AvgPoolOptions {
        divisor_override: c.opt_int((6, "divisor_override")),
        ..AvgPoolOptions::new()
            .stride(stride(c, n))
            .padding(c.sizes((3, "padding"), n, 0))
            .ceil_mode(c.bool((4, "ceil_mode"), false))
            .count_include_pad(c.bool((5, "count_include_pad"), true))
    }
}

/// The sizes an adaptive pooling is asked for; `None` keeps the input's.
fn adaptive(c: &GoldenCase, n: usize) -> Vec<usize> {
    let shape = c.tensor(0).shape().expect("an input");
    let own = &shape[shape.rank() - n..];
    match c.get((1, "output_size")).and_then(Arg::items) {
        Some(items) if items.len() == n => {
            items.iter().zip(own).map(|(a, &d)| a.int().map_or(d, |i| i as usize)).collect()
        }
        _ => c.sizes((1, "output_size"), n, 1),
    }
}

fn interpolate(c: &GoldenCase) -> Result<Vec<Tensor>> {
    let size = match (c.ints((1, "size")), c.get("scale_factor")) {
        (Some(size), _) => Resize::To(size.iter().map(|&s| s as usize).collect::<Vec<_>>().into()),
        (None, Some(f)) => Resize::By(match f.items() {
            Some(items) => items.iter().filter_map(Arg::float).collect(),
            None => f.float().into_iter().collect(),
        }),
        (None, None) => return Err(Error::value("neither size nor scale_factor")),
    };
    let options = InterpolateOptions {
        mode: Interpolation::parse(&c.str("mode", "nearest"))?,
        align_corners: c.bool("align_corners", false),
        recompute_factor: c.bool("recompute_scale_factor", false),
    };
    Ok(vec![c.tensor(0).interpolate(size, options)])
}
