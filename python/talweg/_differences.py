"""Deliberate differences from PyTorch: names with another behavior, and absent names, each with the reason and the
replacement.

`docs/torch.md` is generated from this table, and the error of an absent name quotes it.
"""

import functools
import re

from . import _native
from .errors import AbsentNameError

# Keywords that many functions of PyTorch take and that change no result here.
KEYWORDS = {"memory_format", "layout", "pin_memory", "implicit", "out0", "out1", "out2", "save_mean", "save_invstd"}
KEYWORDS_PROSE = (
    "Keywords that change no result are not counted above: `memory_format`, `layout` and `pin_memory` (tensors are "
    "row-major, in the memory of their device)."
)

# name -> how it differs
DIFFERS = {
    "torch.as_strided": "returns a copy: a write to it does not reach the tensor",
    "torch.Tensor.as_strided": "returns a copy: a write to it does not reach the tensor",
    "torch.as_strided_scatter": "the gradient of the input is zero where it is overwritten; PyTorch 2.15's is zero everywhere else",
    "torch.index_fill": "the gradient of a tensor `value` counts an index that is named twice once; PyTorch's counts it twice",
    "torch.Tensor.grad": "each read is another handle to the gradient; where an assigned tensor is a view, the gradient is its copy",
    "torch.Tensor.size": "also the number of elements, as the array API has it: an `int` that can be called",
    "torch.Tensor.data_ptr": "the address of the elements as they are now; computing anything may move them",
    "torch.save": "writes safetensors, not pickle: modules are saved as `model.state_dict()`",
    "torch.load": "reads tensors and plain values, and never runs pickle",
    "torch.compile": "the same as `tw.jit`",
    "torch.cond": "takes the operands one by one: `tw.cond(pred, then, otherwise, *operands)`",
    "torch.export": "PyTorch's is a module; `tw.export(fn, path, ...)` writes a model for `talweg serve`",
    "torch.while_loop": "takes one state, as JAX: `tw.while_loop(cond, body, state)`",
    "torch.vmap": "takes `in_axes` and `out_axes`, as JAX",
    "torch.set_num_threads": "the number of threads is set by the variable `TALWEG_THREADS`",
    "torch.nn.functional.softmax": "`dim` must be given for more than two dimensions, where PyTorch guesses and warns",
    "torch.nn.functional.linear_cross_entropy": "`options` have no effect: the compiler tiles the GEMM",
    "torch.nn.Embedding": "`sparse=True` is accepted; the gradient is dense",
    "torch.optim.SparseAdam": "raises: gradients are dense; use Adam",
    "torch.eig": "removed from PyTorch; the same as `linalg.eig`",
    "torch.lstsq": "removed from PyTorch; `tw.lstsq(a, b)` is the solution alone",
    "torch.solve": "removed from PyTorch; `tw.solve(a, b)` is `linalg.solve`",
    "torch.linalg.pinv": "the gradient with `hermitian=True` is that of a Hermitian matrix, also where the matrix is none",
    "torch.linalg.eig": "of two conjugate eigenvalues either may come first",
    "torch.linalg.eigvals": "of two conjugate eigenvalues either may come first",
    "torch.cholesky_solve": "the gradient is that of a triangular factor, also where the matrix has elements in the other half",
    "torch.cholesky_inverse": "the gradient is that of a triangular factor, also where the matrix has elements in the other half",
}

# Names of the array API standard and NumPy that PyTorch has not, with what to write.
STANDARD = {
    "repeat": "tw.repeat_interleave(x, n) for each element, x.repeat(n) for the whole",
    "permute_dims": "tw.permute",
    "matrix_transpose": "x.mT",
    "astype": "x.to(dtype)",
    "isdtype": "dtype.is_floating_point, dtype.is_complex",
    "cumulative_sum": "tw.cumsum",
    "cumulative_prod": "tw.cumprod",
    "unique_values": "tw.unique",
    "unique_counts": "tw.unique(x, return_counts=True)",
    "unique_inverse": "tw.unique(x, return_inverse=True)",
    "unique_all": "tw.unique",
    "take_along_axis": "tw.take_along_dim",
    "bitwise_invert": "tw.bitwise_not",
    "expand_dims": "tw.unsqueeze",
}

_SPARSE = "there are no sparse tensors: use dense ones, `nn.Embedding` and `index_add` for sparse updates, or tables of the parameter store"
_QUANTIZED = "PyTorch's quantized tensors: use `Tensor.quantize` and `nn.QuantizedLinear`, or `tw.autocast('float8')`"
_BACKEND = "one of PyTorch's kernels for a back end: call the function of the same purpose"
_SCRIPT = "internal to PyTorch (TorchScript, its dispatcher and serializer): `tw.jit` compiles, `tw.graph` shows the graph"
_INPLACE = "write it as a method: `x.{0}(...)`"
_STORAGE = "tensors have no storage to share or reinterpret: use views, `numpy()`, DLPack, or `tw.save`"
_BITS = "there is no such element type; the smallest are `int8`, `uint8` and fp8"
_SYMBOLIC = "symbolic sizes of `torch.export`: sizes are numbers in Python"
_HELPER = "a helper of PyTorch's own code, not meant for programs: leave it out"
_AUTOCAST = "`with tw.autocast(dtype):` is the whole interface"
_DETERMINISTIC = "computations are deterministic: the same program and seed return the same bits"
_PLATFORM = "there is no such device; `tw.devices()` lists those there are"
_STREAM = "the runtime orders the work of a device itself"
_LOW_LEVEL_RNN = "use the module of the same name in `tw.nn`"
_PIPES = "deprecated in PyTorch: use `Dataset`, `IterableDataset` and samplers"
_SPACE = "there is no such module: "

# (names as a regular expression, why and what instead); the first that fits counts. `{0}` is the name.
_ABSENT: list[tuple[str, str]] = [
    (r"torch\.(nn\.functional|optim\.lr_scheduler|fft|linalg|nn)\.(TYPE_CHECKING|Tensor|BroadcastingList\d|bisect_right|inf|common_args|"
     r"factory_common_args|common_notes|factory_kwargs|common_types|assert_int_or_pair|boolean_dispatch|\w*torch_function\w*|"
     r"reproducibility_notes|sparse_support_notes|tf32_notes|EPOCH_DEPRECATION_WARNING|GRID_SAMPLE_\w+|ScalingType|SwizzleType)", _HELPER),
    (r"torch\.linalg\.ldl_\w+", "there is no LDLᵀ factorization: use `linalg.cholesky` for positive definite matrices, `linalg.lu_factor` for others"),
    (r"torch\.linalg\.LinAlgError", "a singular matrix is a `tw.Error` when the result is read; `linalg.inv_ex`, `solve_ex` and `cholesky_ex` report it instead"),
    (r"torch\.nn\.functional\.scaled_\w+", "fp8 GEMMs are `Tensor.scaled_matmul` and `tw.autocast('float8')`"),
    (r"torch\.nn\.functional\.adaptive_max_pool\dd_with_indices", "call `adaptive_max_pool` with `return_indices=True`"),
    (r"torch\.nn\.functional\.grad|torch\.nn\.grad", "use `tw.grad` or `backward()` of the convolution"),
    (r"torch(\.nn\.functional)?\.conv_tbc", "use `conv1d` on `x.permute(1, 2, 0)`"),
    (r"torch(\.nn\.functional)?\.native_channel_shuffle", "use `nn.functional.channel_shuffle`"),
    (r"torch\.nn\.(Container|NLLLoss2d)", "deprecated in PyTorch: use `Module` and `NLLLoss`"),
    (r"torch\.nn\.LinearCrossEntropyOptions", "the compiler tiles the GEMM of `nn.LinearCrossEntropyLoss`"),
    (r"torch\.nn\.UninitializedBuffer", "lazy layers have `UninitializedParameter` only"),
    (r"torch\.nn\.(intrinsic|qat|quantizable|quantized)", _QUANTIZED),
    (r"torch\.nn\.parallel", "`talweg launch` runs a script on several processes, `tw.distributed` has the collectives"),
    (r"torch\.nn\.(attention|modules)", "the classes and functions are in `tw.nn` and `tw.nn.functional` themselves"),
    (r"torch\.optim\.(functional|swap_in_optimizer_params_and_state)", _HELPER),
    (r"torch\.utils\.data\.(DFIterDataPipe|DataChunk|IterDataPipe|MapDataPipe|argument_validation|datapipes|functional_datapipe|graph|"
     r"graph_settings|guaranteed_datapipes_determinism|non_deterministic|runtime_validation\w*)", _PIPES),
    (r"torch\.utils\.data\.(dataloader|dataset|distributed|sampler)", "the classes are in `tw.utils.data` itself"),
    (r"torch\.utils\.data\.DistributedSampler", "`talweg launch` shards every batch"),
    (r"torch\.utils\.data\.\w+", "write the class with `__getitem__` and `__len__`, or any iterable: `DataLoader` takes both"),
    (r"torch\.(\w*Storage\w*|storage)|torch\.Tensor\.(storage|storage_type|untyped_storage|set_|is_set_to|const_data_ptr)", _STORAGE),
    (r"torch\.Tensor\.(share_memory_|is_shared)", "processes share no memory of tensors: `tw.distributed` sends them"),
    (r"torch\.(sparse\w*|ccol_indices_copy|col_indices_copy|crow_indices_copy|indices_copy|row_indices_copy|values_copy|dsmm|hsmm|hspmm|saddmm|smm|"
     r"spmm|sspaddmm|resize_as_sparse_)", _SPARSE),
    (r"torch\.Tensor\.(ccol_indices|coalesce|col_indices|crow_indices|dense_dim|indices|is_coalesced|is_sparse_csr|row_indices|smm|sparse_\w+|"
     r"sspaddmm|to_dense|to_sparse\w*|values|resize_as_sparse_|to_padded_tensor)", _SPARSE),
    (r"torch\.(nested|jagged)", "there are no nested tensors: use `nn.utils.rnn.pad_sequence` and lengths"),
    (r"torch\.(Tensor\.)?(dequantize|int_repr|q_\w+|qscheme|\w*quantize\w*|fused_moving_avg_obs_fake_quant|choose_qparams_optimized|qu?int\d\w*|"
     r"per_(channel|tensor)_\w+|ao|quantization)", _QUANTIZED),
    (r"torch\.(fbgemm|cudnn|miopen|mkldnn)_\w+|torch\.Tensor\.to_mkldnn", _BACKEND),
    (r"torch\.batch_norm_(backward_\w+|elemt|gather_\w+|update_stats)|torch\.native_(dropout|norm)", "a part of a layer: use the layer of `tw.nn`"),
    (r"torch\.(convolution|affine_grid_generator|norm_except_dim|max_pool1d_with_indices|embedding_renorm_)",
     "use the function of `tw.nn.functional` (`conv2d`, `affine_grid`, `max_pool1d(return_indices=True)`, …)"),
    (r"torch\.(alpha_dropout|feature_alpha_dropout|feature_dropout|channel_shuffle|embedding_bag|pdist|rrelu)", "is in `tw.nn.functional`"),
    (r"torch\.(gru|lstm|rnn_relu|rnn_tanh)(_cell)?", _LOW_LEVEL_RNN),
    (r"torch\.(frobenius_norm|nuclear_norm)", "`tw.linalg.matrix_norm(x, 'fro')` or `'nuc'`"),
    (r"torch\.(matrix_rank|symeig|lobpcg)|torch\.Tensor\.symeig", "removed from PyTorch or rare: `tw.linalg.matrix_rank`, `tw.linalg.eigh`"),
    (r"torch\.(Tensor\.)?(hash_tensor)", "hash `x.numpy().tobytes()`"),
    (r"torch\.range", "deprecated in PyTorch: use `tw.arange`, whose end is excluded"),
    (r"torch\.(binomial|poisson)", "sum `tw.bernoulli`, or draw with NumPy"),
    (r"torch\.(empty_permuted|empty_strided|empty_quantized)|torch\.Tensor\.new_empty_strided", "tensors are row-major: use `tw.empty`"),
    (r"torch\.(from_file|frombuffer)", "`tw.from_numpy(np.frombuffer(...))` or `np.memmap`"),
    (r"torch\.to_dlpack", "pass the tensor itself: it has `__dlpack__`"),
    (r"torch\.(slice_copy|slice_inverse)|torch\.Tensor\.slice_inverse", "slice the tensor: `x[a:b].clone()`"),
    (r"torch\.(as_strided_|resize_as_|detach_)|torch\.Tensor\.(as_strided_|detach_|resize_|resize_as_|resize|resize_as)",
     "a tensor keeps its shape and its history: assign the result of `as_strided`, `reshape` or `detach`"),
    (r"torch\.\w+_(?=$)", _INPLACE),
    (r"torch\.(bits\w+|bit|u?int[1-7]|float4_\w+|float8_e\w+fnuz|float8_e8m0fnu|complex32|bcomplex32|chalf)|torch\.Tensor\.chalf", _BITS),
    (r"torch\.(Sym\w+|sym_\w+)", _SYMBOLIC),
    (r"torch\.\w*autocast\w*", _AUTOCAST),
    (r"torch\.\w*determin\w+", _DETERMINISTIC),
    (r"torch\.(\w*anomaly\w*)", "`tw.check_numerics` finds the op that makes a NaN"),
    (r"torch\.(Stream|Event|\w*StreamObj\w*|thread_safe_generator|wait|fork|futures|Future|Await\w*)|torch\.Tensor\.record_stream", _STREAM),
    (r"torch\.(mps|mtia|xpu|cpu|accelerator|is_vulkan_available|get_device_module)|torch\.Tensor\.(ipu|is_ipu|is_maia|is_mtia|is_vulkan|is_xla|mtia|xpu)", _PLATFORM),
    (r"torch\.get_device", "`x.device`"),
    (r"torch\.(amp)", _SPACE + "`tw.autocast` and `tw.GradScaler` are in the package itself"),
    (r"torch\.(autograd|func|functional|compiler|foreach)", _SPACE + "`tw.grad`, `tw.vmap`, `tw.jvp`, `tw.jit` and the functions are in the package itself"),
    (r"torch\.(distributions)", _SPACE + "draw with `tw.randn`, `tw.rand`, `tw.multinomial`"),
    (r"torch\.(profiler|monitor)", _SPACE + "`step.explain()` shows the compiled program, `TALWEG_TRACE` records a run"),
    (r"torch\.(export|fx|package|hub|library|ops|classes|cpp|onnx)", _SPACE + "`tw.add_pass` and `tw.custom_gradient` extend the compiler"),
    (r"torch\.(multiprocessing|prepare_multiprocessing_environment)", _SPACE + "`talweg launch` starts processes"),
    (r"torch\.(backends|overrides|testing|serialization|quasirandom|version|torch_version|windows)", _SPACE + "it steers PyTorch's own libraries"),
    (r"torch\.(layout|memory_format|legacy_contiguous_format)", "tensors are row-major; `tw.strided` and `tw.contiguous_format` are accepted as values"),
    (r"torch\.(compile)", "`tw.jit(f)`"),
    (r"torch\.set_default_tensor_type", "`tw.set_default_dtype`, `tw.set_default_device`"),
    (r"torch\.(set_printoptions)", "`np.set_printoptions` and `print(x.numpy())`"),
    (r"torch\.\w*num\w*_threads", "the variable `TALWEG_THREADS` sets the number of threads"),
    (r"torch\.(set|get)_float32_matmul_precision", "float32 GEMMs run in float32; `tw.autocast` runs them in 16 bits"),
    (r"torch\.set_flush_denormal", "subnormal numbers are kept"),
    (r"torch\.(has_\w+|USE_\w+|compiled_with_cxx11_abi|PRIVATE_OPS|TYPE_CHECKING|get_file_path|classproperty|\w*warn_always\w*|merge_type_\w+|"
     r"profiler_\w+|is_distributed|is_inference\w*|is_conj|is_neg)", _HELPER),
    (r"torch\.Tensor\.(is_conj|is_neg|is_inference|is_distributed|output_nr|volatile|module_load|as_subclass|grad_dtype|reinforce|new|dim_order|index)", _HELPER),
    (r"torch\.Tensor\.(is_pinned|pin_memory)", "copies to a GPU need no pinned memory here"),
    (r"torch\.Tensor\.(apply_|map_|map2_)", "compute with tensors, or with NumPy: `tw.tensor(f(x.numpy()))`"),
    (r"torch\.Tensor\.(register_hook|register_post_accumulate_grad_hook|retain_grad|retains_grad)", "use `tw.grad` with respect to the value"),
    (r"torch\.Tensor\.fill_diagonal_", "`x.diagonal().fill_(value)`"),
    (r"torch\.Tensor\.(igammac?_|fix_|\w+_)", "assign the result of the function without the underscore"),
    (r"torch\.Tensor\.narrow_copy", "`x.narrow(...).clone()`"),
    (r"torch\.(import_ir\w*|parse_\w+|unify_type_list|SUM|AVG|[A-Z]\w+)", _SCRIPT),
]  # fmt: skip


@functools.cache
def absent(name: str) -> str | None:
    """Why a name of PyTorch's, such as ``torch.nn.Container``, is absent, and what to write instead."""
    for pattern, words in _ABSENT:
        if re.fullmatch(pattern, name):
            return words.format(name.rsplit(".", 1)[1])
    return None


def missing(space: str, name: str) -> AbsentNameError:
    """The error for a name that a module does not have, with the reason if it is one of PyTorch's."""
    why = None if name.startswith("_") else absent(f"torch{space}.{name}")
    if not space and name in STANDARD:
        why = f"write {STANDARD[name]}; tw.array_api has the standard's"
    what = f"talweg{space} has no {name}" + (f": {why}" if why else "")
    error = AbsentNameError(_native.located(what))
    error.name = name
    return error
