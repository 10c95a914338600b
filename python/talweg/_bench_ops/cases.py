"""The table of ``talweg bench ops``: every common operator, in PyTorch's spelling, with its inputs."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# group | name | expression over `t` (the library), `F` (its functional part), `dev` and the inputs | the inputs.
#
# A group that ends in "!" has no gradient here; one that ends in "~" takes floats alone. An input is its name, its
# kind and its shape. Kinds: none is normal numbers, "+" lie in 0.6..1.4, "~" in -1..1, "%" in 0.01..1 and has no
# gradient, "<H" are indices below H, "?" are booleans. n(x) is x times `--scale`.
TABLE = """
loss~ | cross_entropy | F.cross_entropy(a, i) | i<50257 n(2048); a n(2048),50257
loss~ | cross_entropy_small | F.cross_entropy(a, i) | i<1000 n(8192); a n(8192),1000
loss~ | cross_entropy_smooth | F.cross_entropy(a, i, label_smoothing=0.1) | i<1000 n(8192); a n(8192),1000
loss~ | mse | F.mse_loss(a, b) | a big; b big
loss~ | bce_logits | F.binary_cross_entropy_with_logits(a, b) | a big; b% big
loss~ | kl_div | F.kl_div(F.log_softmax(a, -1), F.softmax(b, -1), reduction='batchmean') | a n(8192),1000; b n(8192),1000
loss~ | smooth_l1 | F.smooth_l1_loss(a, b) | a big; b big
loss~ | cosine | F.cosine_similarity(a, b) | a rows,1024; b rows,1024
loss~ | normalize | F.normalize(a) | a rows,4096
loss~ | cdist | t.cdist(a, b) | a n(2048),128; b n(2048),128
binary | where | t.where(m, a, b) | m? big; a big; b big
binary | clamp | a.clamp(-1, 1) | a big
binary~ | lerp | t.lerp(a, b, 0.3) | a big; b big
binary | masked_fill | a.masked_fill(m, 0) | m? big; a big
binary | pow3 | a ** 3 | a big
binary~ | pow | a ** b | a+ big; b+ big
binary~! | isnan_any | t.isnan(a).any() | a big
binary! | compare | (a > b).sum() | a big; b big
binary~! | to_half_back | a.to(t.float16).to(t.float32) | a big
random~ | dropout | F.dropout(a, 0.1) | a big
random~! | randn | t.randn(n(2**26), device=dev).sum() |
random~! | multinomial | t.multinomial(a, 1) | a% n(4096),1000
reduce~ | max_rows | a.max(-1)[0] | a rows,4096
reduce~ | norm | a.norm() | a rows,4096
reduce~ | logsumexp | a.logsumexp(-1) | a rows,4096
reduce | sum_middle | a.sum(1) | a 64,1024,n(1024)
reduce~ | mean_hw | a.mean((2, 3)) | a 64,256,56,56
reduce! | any_rows | m.any(-1) | m? rows,4096
reduce~ | softmax | F.softmax(a, -1) | a rows,4096
reduce~ | softmax_narrow | F.softmax(a, -1) | a n(2**18),128
reduce~ | softmax_wide | F.softmax(a, -1) | a n(512),50257
reduce~ | log_softmax | F.log_softmax(a, -1) | a rows,4096
reduce~ | softmax0 | F.softmax(a, 0) | a rows,4096
scan | cumsum | a.cumsum(-1) | a rows,4096
scan | cumsum0 | a.cumsum(0) | a rows,4096
scan~ | cumprod | a.cumprod(-1) | a+ n(1024),1024
scan! | cummax | a.cummax(-1)[0] | a n(2048),2048
order! | sort | t.sort(a, -1)[0] | a n(4096),4096
order! | sort_long | t.sort(a)[0] | a n(2**23)
order! | argsort | t.argsort(a, -1) | a n(4096),4096
order! | topk | a.topk(50)[0] | a n(256),50257
order~ | topk8 | a.topk(8)[0] | a n(2**15),256
order! | kthvalue | a.kthvalue(10)[0] | a n(4096),1024
order! | median | a.median(-1)[0] | a n(4096),1024
order! | unique | t.unique(i) | i<100000 n(2**22)
order! | bincount | t.bincount(i, minlength=1000) | i<1000 n(2**24)
order! | nonzero | t.nonzero(m) | m? n(2**22)
order! | masked_select | a[m] | m? n(2**22); a n(2**22)
order! | searchsorted | t.searchsorted(t.sort(b)[0], a) | a n(2**22); b 10000
order~! | histogram | t.histc(a, 100, -4.0, 4.0) | a n(2**24)
index | embedding | F.embedding(i, a) | i<50000 n(2**18); a 50000,256
index | gather_rows | a[i] | i<n(10**6) n(10**6); a n(10**6),64
index | gather | a.gather(1, i) | i<4096 n(4096),1024; a n(4096),4096
index | gather0 | a.gather(0, i) | i<n(4096) n(2048),1024; a n(4096),1024
index | index_select1 | a.index_select(1, i) | i<4096 2048; a rows,4096
index! | take_along | t.take_along_dim(a, i, 1) | i<4096 n(4096),1024; a n(4096),4096
index | scatter_add | t.zeros_like(a).scatter_add(1, i, a) | i<1024 n(8192),1024; a n(8192),1024
index | index_add | a.index_add(0, i, b) | i<100000 n(10**6); a 100000,64; b n(10**6),64
index! | one_hot | F.one_hot(i, 1000).sum() | i<1000 n(2**18)
move | roll | t.roll(a, 3, 0) | a rows,4096
move | roll1 | t.roll(a, 5, 1) | a rows,4096
move | flip | t.flip(a, (0,)) | a rows,4096
move | flip1 | t.flip(a, (1,)) | a rows,4096
move | tril | t.tril(a) | a rows,4096
move | slice_step | a[::2, 1::3] * 1 | a rows,4096
move | transpose_copy | a.transpose(0, 1).contiguous() + 0 | a rows,4096
move | permute_copy | a.permute(0, 2, 3, 1).contiguous() + 0 | a 64,64,112,112
move | cat | t.cat([a, b], 1) | a rows,4096; b rows,4096
move | stack | t.stack([a, b], 0) | a rows,4096; b rows,4096
move | stack_last | t.stack([a, b], -1) | a rows,1024; b rows,1024
move | split_mul | t.cat([x * k for k, x in enumerate(a.chunk(4, 1))], 1) | a rows,4096
move | repeat | a.repeat(1, 4) | a rows,1024
move | repeat_interleave | t.repeat_interleave(a, 4, 0) | a n(2048),4096
move | pad | F.pad(a, (1, 1, 1, 1)) | a 64,64,112,112
move~ | unfold | F.unfold(a, 3, padding=1) | a 16,64,56,56
move | meshgrid_outer | a[:, None] * b[None, :] | a rows; b rows
product~ | matmul_256 | a @ b | a 256,256; b 256,256
product~ | matmul_1000 | a @ b | a 1000,1000; b 1000,1000
product~ | matmul_large | a @ b | a n(4096),n(4096); b n(4096),n(4096)
product~ | matmul_odd | a @ b | a 123,77; b 77,211
product~ | matmul_transposed | a @ b.transpose(0, 1) | a 512,512; b 512,512
product~ | matmul_skinny | a @ b | a 16,4096; b 4096,n(4096)
product~ | matmul_tall | a @ b | a n(2**17),64; b 64,64
product~ | matvec | a @ b | a rows,4096; b 4096
product~ | bmm | a @ b | a n(512),128,128; b n(512),128,128
product~ | bmm_64 | a @ b | a n(64),1024,64; b n(64),64,1024
product~ | einsum_attn | t.einsum('bhqd,bhkd->bhqk', a, b) | a n(8),16,512,64; b n(8),16,512,64
product~ | einsum_outer | t.einsum('bi,bj->bij', a, b) | a n(4096),128; b n(4096),128
product~ | linear | F.linear(a, b, c) | a n(4096),1024; b 4096,1024; c 4096
product~ | outer | t.outer(a, b) | a rows; b rows
product~ | bilinear | F.bilinear(a, b, c) | a n(1024),64; b n(1024),64; c 64,64,64
product~! | matmul_f64 | a.to(t.float64) @ b.to(t.float64) | a n(1024),1024; b 1024,1024
product~! | matmul_f16 | a.to(t.float16) @ b.to(t.float16) | a n(4096),4096; b 4096,4096
product~! | matmul_bf16 | a.to(t.bfloat16) @ b.to(t.bfloat16) | a n(4096),4096; b 4096,4096
image~ | conv3 | F.conv2d(a, b, padding=1) | a n(64),64,56,56; b 64,64,3,3
image~ | conv1 | F.conv2d(a, b) | a n(64),256,56,56; b 64,256,1,1
image~ | conv7s2 | F.conv2d(a, b, stride=2, padding=3) | a n(64),3,224,224; b 64,3,7,7
image~ | conv_s2 | F.conv2d(a, b, stride=2, padding=1) | a n(64),128,28,28; b 256,128,3,3
image~ | conv_dilated | F.conv2d(a, b, padding=2, dilation=2) | a n(64),64,28,28; b 64,64,3,3
image~ | conv_depthwise | F.conv2d(a, b, padding=1, groups=192) | a n(64),192,56,56; b 192,1,3,3
image~ | conv_groups | F.conv2d(a, b, padding=1, groups=32) | a n(64),128,28,28; b 128,4,3,3
image~ | conv_odd | F.conv2d(a, b, stride=2, padding=1) | a 3,7,37,41; b 13,7,3,3
image~ | conv1d | F.conv1d(a, b, padding=2) | a n(64),128,1024; b 128,128,5
image~ | conv3d | F.conv3d(a, b, padding=1) | a n(4),32,16,56,56; b 32,32,3,3,3
image~ | conv_transpose | F.conv_transpose2d(a, b, stride=2) | a n(64),128,28,28; b 128,64,2,2
image~ | conv_transpose4 | F.conv_transpose2d(a, b, stride=2, padding=1) | a n(64),128,16,16; b 128,64,4,4
image~ | max_pool | F.max_pool2d(a, 3, 2, 1) | a n(64),64,112,112
image~ | avg_pool | F.avg_pool2d(a, 2) | a n(64),64,112,112
image~ | adaptive_avg | F.adaptive_avg_pool2d(a, 1) | a n(64),512,14,14
image~ | adaptive_uneven | F.adaptive_avg_pool2d(a, 5) | a n(64),64,28,28
image~ | interpolate_nearest | F.interpolate(a, scale_factor=2, mode='nearest') | a n(16),64,128,128
image~ | interpolate_bilinear | F.interpolate(a, scale_factor=2, mode='bilinear') | a n(16),64,128,128
image~ | grid_sample | F.grid_sample(a, b) | a n(8),32,128,128; b~ n(8),128,128,2
image~ | pixel_shuffle | F.pixel_shuffle(a, 2) | a n(16),64,128,128
norm~ | layer_norm | F.layer_norm(a, (768,)) | a n(16384),768
norm~ | layer_norm_wide | F.layer_norm(a, (8192,), b, c) | a n(2048),8192; b 8192; c 8192
norm~ | rms_norm | F.rms_norm(a, (4096,)) | a n(4096),4096
norm~ | batch_norm | F.batch_norm(a, None, None, b, c, True) | a n(64),256,28,28; b 256; c 256
norm~ | group_norm | F.group_norm(a, 32) | a n(32),256,64,64
norm~ | instance_norm | F.instance_norm(a) | a n(32),64,128,128
attention~ | sdpa | F.scaled_dot_product_attention(a, b, c) | a n(8),16,1024,64; b n(8),16,1024,64; c n(8),16,1024,64
attention~ | sdpa_causal | F.scaled_dot_product_attention(a, b, c, is_causal=True) | a n(8),16,1024,64; b n(8),16,1024,64; c n(8),16,1024,64
attention~ | sdpa_short | F.scaled_dot_product_attention(a, b, c) | a n(256),8,64,32; b n(256),8,64,32; c n(256),8,64,32
attention~ | sdpa_odd | F.scaled_dot_product_attention(a, b, c) | a n(16),12,197,64; b n(16),12,197,64; c n(16),12,197,64
loss~ | glu | F.glu(a) | a rows,4096
recurrent~ | lstm | lstm(a)[0] | a 64,128,256
recurrent~ | gru | gru(a)[0] | a 64,128,256
recurrent~ | rnn | rnn(a)[0] | a 64,128,256
linalg~ | cholesky | t.linalg.cholesky(SPD) | a n(64),256,256
linalg~ | solve | t.linalg.solve(SPD, b) | a n(64),256,256; b n(64),256,16
linalg~ | inv | t.linalg.inv(SPD) | a n(64),256,256
linalg~ | det | t.linalg.det(a) | a n(256),32,32
linalg~! | qr | t.linalg.qr(a)[1] | a n(16),256,256
linalg~! | svd | t.linalg.svdvals(a) | a n(4),256,256
linalg~! | eigh | t.linalg.eigvalsh(SPD) | a n(4),256,256
linalg~! | lstsq | t.linalg.lstsq(a, b)[0] | a 512,128; b 512,8
linalg~! | matrix_exp | t.linalg.matrix_exp(a * 0.01) | a n(64),64,64
fft~ | fft | t.fft.fft(a).abs() | a n(4096),4096
fft~ | rfft | t.fft.rfft(a).abs() | a n(4096),4096
fft~ | fft2 | t.fft.fft2(a).abs() | a n(64),512,512
fft~! | fft_prime | t.fft.fft(a).abs() | a n(1024),4093
"""
UNARY = (
    "abs neg exp log sqrt rsqrt sin cos tan tanh sigmoid erf floor! ceil! round! sign! reciprocal square log1p expm1 atan"
    " sinh cosh asinh log2 log10 exp2 trunc! frac digamma lgamma"
)
# Those that PyTorch has for integers too, with integer results.
UNARY_INT = {"abs", "neg", "sign", "square"}
ACTIVATIONS = "relu gelu silu softplus elu leaky_relu selu mish hardswish hardtanh logsigmoid softsign celu relu6"
SPD = "(a @ a.transpose(-1, -2) + 300 * t.eye(a.shape[-1], device=dev, dtype=a.dtype))"


def _lines() -> Iterator[str]:
    for op in UNARY.split():
        name = op.rstrip("!")
        mark = ("" if name in UNARY_INT else "~") + ("!" if op != name else "")
        yield f"unary{mark} | {name} | a.{name}() | a+ big"
    for name in ACTIVATIONS.split():
        yield f"activation~ | {name} | F.{name}(a) | a big"
    yield "activation~ | gelu_tanh | F.gelu(a, approximate='tanh') | a big"
    for name, sign in {"add": "+", "sub": "-", "mul": "*", "div": "/"}.items():
        mark = "~" if name == "div" else ""
        yield f"binary{mark} | {name} | a {sign} b | a+ big; b+ big"
        yield f"binary{mark} | {name}_row | a {sign} b | a+ rows,4096; b+ 4096"
        yield f"binary{mark} | {name}_column | a {sign} b | a+ rows,4096; b+ rows,1"
    for name in ("maximum", "minimum"):
        yield f"binary | {name} | t.{name}(a, b) | a+ big; b+ big"
    for name in ("atan2", "hypot"):
        yield f"binary~ | {name} | t.{name}(a, b) | a+ big; b+ big"
    for name in ("fmod", "remainder"):
        yield f"binary! | {name} | t.{name}(a, b) | a+ big; b+ big"
    for axis, label in (("", "all"), ("-1", "rows"), ("0", "columns")):
        for name in ("sum", "mean", "prod", "amax", "amin", "var", "std"):
            mark = ("" if name in ("sum", "amax", "amin") else "~") + ("!" if name in ("amax", "amin", "prod") else "")
            yield f"reduce{mark} | {name}_{label} | a.{name}({axis}) | a+ rows,4096"
        yield f"reduce! | argmax_{label} | a.argmax({axis}) | a rows,4096"
    yield from filter(None, map(str.strip, TABLE.splitlines()))


@dataclass
class Input:
    """A name, a kind and a shape."""

    name: str
    kind: str
    shape: tuple[int, ...]
    limit: int = 0


@dataclass
class Case:
    """A row of the table."""

    group: str
    name: str
    body: str
    inputs: list[Input]
    has_gradient: bool
    is_float: bool


def _size(how: str, size: int) -> int:
    """A size as it is, an odd one near it, or a tiny one. Equal sizes stay equal, and 1 stays 1."""
    if how == "odd":
        return size - 1 if size > 4 and size % 2 == 0 else size
    return size if how == "sweep" or size <= 4 else size % 13 + 3


def _parsed(text: str, names: dict[str, Any], how: str) -> Input:
    head, dims = text.split()
    number = lambda s: int(eval(s, {}, names))  # noqa: E731, S307
    shape = tuple(_size(how, number(d)) for d in _split(dims))
    if "<" in head:
        return Input(head[0], "<", shape, _size(how, number(head.split("<")[1])))
    return Input(head[0], head[1:], shape)


def _split(dims: str) -> list[str]:
    """Parts between commas that stand in no bracket."""
    parts, depth = [""], 0
    for c in dims:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def cases(scale: float, how: str = "sweep") -> Iterator[Case]:
    """The table for sizes of this scale."""
    n = lambda x: max(1, int(x * scale))  # noqa: E731
    names = {"n": n, "big": n(2**26), "rows": n(8192)}
    for line in _lines():
        group, name, body, inputs = (part.strip() for part in line.split("|"))
        body = body.replace("SPD", SPD).replace("n(2**26)", str(_size(how, n(2**26))))
        parts = [_parsed(part.strip(), names, how) for part in filter(None, inputs.split(";"))]
        yield Case(group.rstrip("!~"), name, body, parts, "!" not in group, "~" in group)


def is_integer(dtype: str) -> bool:
    """Whether a type is one of integers, which have fewer cases and no gradients."""
    return dtype.startswith("int")


def made(library: Any, case: Case, dtype: str, is_strided: bool, device: str) -> dict[str, Any]:
    """Inputs as tensors of a library."""
    values = {}
    for x in case.inputs:
        library.manual_seed(random.Random(f"{case.name} {x.name}").randrange(2**31))
        if x.kind == "<":
            values[x.name] = library.randint(0, x.limit, x.shape).to(device)
            continue
        if x.kind == "?":
            values[x.name] = (library.rand(*x.shape) > 0.5).to(device)
            continue
        # A view whose last two dimensions lie the other way round.
        is_turned = is_strided and len(x.shape) > 1
        shape = x.shape[:-2] + x.shape[:-3:-1] if is_turned else x.shape
        if is_integer(dtype):
            v = library.randint(1, 100, shape) if x.kind else library.randint(-50, 50, shape)
        elif x.kind == "":
            v = library.randn(*shape)
        else:
            low, high = {"+": (0.6, 1.4), "~": (-1, 1), "%": (0.01, 1)}[x.kind]
            v = library.rand(*shape) * (high - low) + low
        v = v.to(getattr(library, dtype)).to(device)
        values[x.name] = v.transpose(-1, -2) if is_turned else v
    return values
